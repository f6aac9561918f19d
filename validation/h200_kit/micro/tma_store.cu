// TMA stores: issue, the wait until shared memory may be written again (read), and the wait until the store is complete.
// sass stores: UTMASTG.2D >= 1
// sass stores: DEPBAR >= 2
// sass store_issue: UTMASTG.2D >= 8

#include "micro.cuh"

using micro::clock_now;

namespace {
constexpr int kStores = 32, kColumns = 64, kRowBytes = 128, kMostRows = 256;
constexpr int kSmem = kMostRows * kRowBytes + 1024;

// Address of dynamic shared memory, at a multiple of 1024 bytes as swizzled boxes want it.
__device__ __forceinline__ unsigned aligned_smem() {
  extern __shared__ unsigned char raw[];
  return micro::held((micro::shared_address(raw) + 1023u) & ~1023u);
}
}  // namespace

extern "C" __global__ void stores(const __grid_constant__ CUtensorMap map, micro::Cycles* out, int rows) {
  const unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::fence_proxy_async();
#pragma unroll 1
  for (int i = 0; i < kStores; ++i) {
    const micro::Cycles start = clock_now();
    micro::tma_store(&map, 0, i * rows, smem);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    const micro::Cycles read = clock_now();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    out[2 * i] = read - start;
    out[2 * i + 1] = clock_now() - start;
  }
}

extern "C" __global__ void store_issue(const __grid_constant__ CUtensorMap map, micro::Cycles* out, int rows) {
  const unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::fence_proxy_async();
#pragma unroll 1
  for (int i = 0; i < kStores; ++i) {
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int j = 0; j < 8; ++j) micro::tma_store(&map, 0, j * rows, smem);
    out[i] = clock_now() - start;
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

MICRO(tma_store) {
  kit::Buffer data(std::size_t{kStores} * kMostRows * kRowBytes), out(2 * kStores * sizeof(micro::Cycles));
  KIT_CHECK(cudaFuncSetAttribute(stores, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  KIT_CHECK(cudaFuncSetAttribute(store_issue, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  const double clock = micro::clock_read_cycles();
  for (const int rows : {8, 32, 128, 256}) {
    const CUtensorMap map = kit::tensor_map(data.as<void>(), std::uint64_t{kStores} * kMostRows, kColumns,
                                            static_cast<unsigned>(rows), kColumns);
    for (int pass = 0; pass < 2; ++pass) stores<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), rows);
    micro::finish("stores");
    const auto times = out.read<micro::Cycles>(2 * kStores);
    std::vector<double> read, complete;
    for (std::size_t i = 2; i < times.size(); i += 2) {
      read.push_back(times[i] - clock);
      complete.push_back(times[i + 1] - 2 * clock);
    }
    const std::string size = "_" + std::to_string(rows * kRowBytes / 1024) + "_kb";
    micro::constant("tma_store_read" + size, "", "cycles", read, "issue to wait_group.read");
    micro::constant("tma_store_complete" + size, "", "cycles", complete, "issue to wait_group");
  }
  const CUtensorMap map = kit::tensor_map(data.as<void>(), std::uint64_t{kStores} * kMostRows, kColumns, 8, kColumns);
  store_issue<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), 8);
  micro::finish("store_issue");
  std::vector<double> samples;
  for (const micro::Cycles v : out.read<micro::Cycles>(kStores)) samples.push_back((v - clock) / 8.0);
  samples.erase(samples.begin());
  micro::constant("tma_store_issue", "tma.store_issue_cycles", "cycles", samples, "8 boxes of 1 KB by one thread");
}
