// TMA loads: time until a box has arrived, by its size, from DRAM and from the L2; what issuing one costs; bulk copies the same.
// sass tensor_fill: UTMALDG.2D >= 1
// sass tensor_fill: SYNCS.PHASECHK >= 1
// sass bulk_fill: UBLKCP >= 1
// sass tensor_issue: UTMALDG.2D >= 8
// sass bulk_issue: UBLKCP >= 8

#include "micro.cuh"

using micro::clock_now;

namespace {
constexpr int kFills = 32, kColumns = 64, kRowBytes = 128, kMostRows = 256;
constexpr int kSmem = kMostRows * kRowBytes + 1024;

// Address of dynamic shared memory, at a multiple of 1024 bytes as swizzled boxes want it.
__device__ __forceinline__ unsigned aligned_smem() {
  extern __shared__ unsigned char raw[];
  return micro::held((micro::shared_address(raw) + 1023u) & ~1023u);
}
}  // namespace

extern "C" __global__ void tensor_fill(const __grid_constant__ CUtensorMap map, micro::Cycles* out, int rows) {
  __shared__ alignas(8) std::uint64_t bar;
  unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::barrier_init(&bar, 1);
  micro::barrier_init_fence();
#pragma unroll 1
  for (int i = 0; i < kFills; ++i) {
    const micro::Cycles start = clock_now();
    micro::expect_bytes(&bar, static_cast<unsigned>(rows * kRowBytes));
    micro::tma_load(smem, &map, 0, i * rows, &bar);
    micro::wait_parity(&bar, i & 1);
    out[i] = clock_now() - start;
  }
}

extern "C" __global__ void bulk_fill(const unsigned char* from, micro::Cycles* out, int rows) {
  __shared__ alignas(8) std::uint64_t bar;
  unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::barrier_init(&bar, 1);
  micro::barrier_init_fence();
  const auto bytes = static_cast<unsigned>(rows * kRowBytes);
#pragma unroll 1
  for (int i = 0; i < kFills; ++i) {
    const micro::Cycles start = clock_now();
    micro::expect_bytes(&bar, bytes);
    micro::bulk_load(smem, from + std::size_t{bytes} * static_cast<unsigned>(i), bytes, &bar);
    micro::wait_parity(&bar, i & 1);
    out[i] = clock_now() - start;
  }
}

extern "C" __global__ void tensor_issue(const __grid_constant__ CUtensorMap map, micro::Cycles* out, int rows) {
  __shared__ alignas(8) std::uint64_t bar;
  unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::barrier_init(&bar, 1);
  micro::barrier_init_fence();
#pragma unroll 1
  for (int i = 0; i < kFills; ++i) {
    micro::expect_bytes(&bar, static_cast<unsigned>(8 * rows * kRowBytes));
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int j = 0; j < 8; ++j) micro::tma_load(smem + static_cast<unsigned>(j * rows * kRowBytes), &map, 0, j * rows, &bar);
    out[i] = clock_now() - start;
    micro::wait_parity(&bar, i & 1);
  }
}

extern "C" __global__ void bulk_issue(const unsigned char* from, micro::Cycles* out, int rows) {
  __shared__ alignas(8) std::uint64_t bar;
  unsigned smem = aligned_smem();
  if (threadIdx.x != 0) return;
  micro::barrier_init(&bar, 1);
  micro::barrier_init_fence();
  const auto bytes = static_cast<unsigned>(rows * kRowBytes);
#pragma unroll 1
  for (int i = 0; i < kFills; ++i) {
    micro::expect_bytes(&bar, 8 * bytes);
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int j = 0; j < 8; ++j) micro::bulk_load(smem + j * bytes, from + j * bytes, bytes, &bar);
    out[i] = clock_now() - start;
    micro::wait_parity(&bar, i & 1);
  }
}

namespace {

std::vector<double> behind_first(const kit::Buffer& out, double by) {
  std::vector<double> samples;
  const auto read = out.read<micro::Cycles>(kFills);
  const double clock = micro::clock_read_cycles();
  for (std::size_t i = 1; i < read.size(); ++i) samples.push_back((read[i] - clock) / by);
  return samples;
}

}  // namespace

MICRO(tma) {
  kit::Buffer data(std::size_t{kFills} * kMostRows * kRowBytes), out(kFills * sizeof(micro::Cycles));
  KIT_CHECK(cudaMemset(data.as<void>(), 0, data.bytes()));
  KIT_CHECK(cudaFuncSetAttribute(tensor_issue, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  KIT_CHECK(cudaFuncSetAttribute(tensor_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  KIT_CHECK(cudaFuncSetAttribute(bulk_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  KIT_CHECK(cudaFuncSetAttribute(bulk_issue, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  std::vector<double> lines, from_dram, from_l2, bulk_l2;
  double first = 0, later = 0;
  for (const int rows : {8, 16, 32, 64, 128, 256}) {
    const CUtensorMap map = kit::tensor_map(data.as<void>(), std::uint64_t{kFills} * kMostRows, kColumns,
                                            static_cast<unsigned>(rows), kColumns);
    const std::string size = "_" + std::to_string(rows * kRowBytes / 1024) + "_kb";
    tensor_fill<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), rows);   // loads the code
    kit::flush_l2();
    tensor_fill<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), rows);
    micro::finish("tensor_fill");
    auto samples = behind_first(out, 1);
    micro::constant("tma_fill_dram" + size, "", "cycles", samples, "box of 64 bf16 columns, swizzled");
    from_dram.push_back(kit::summary(samples).median);
    tensor_fill<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), rows);
    micro::finish("tensor_fill");
    samples = behind_first(out, 1);
    micro::constant("tma_fill_l2" + size, "", "cycles", samples, "box of 64 bf16 columns, swizzled");
    from_l2.push_back(kit::summary(samples).median);
    lines.push_back(rows);
    if (rows == 8) {
      first = static_cast<double>(out.read<micro::Cycles>(1)[0]) - micro::clock_read_cycles();
      later = from_l2.back();
    }
    for (int pass = 0; pass < 2; ++pass) bulk_fill<<<1, 32, kSmem>>>(data.as<unsigned char>(), out.as<micro::Cycles>(), rows);
    micro::finish("bulk_fill");
    samples = behind_first(out, 1);
    micro::constant("bulk_fill_l2" + size, "", "cycles", samples);
    bulk_l2.push_back(kit::summary(samples).median);
  }
  const kit::Line dram = kit::fit(lines, from_dram), l2 = kit::fit(lines, from_l2), bulk = kit::fit(lines, bulk_l2);
  micro::constant("tma_latency_dram", "", "cycles", {dram.intercept}, "intercept over 1 to 32 KB");
  micro::constant("tma_latency_l2", "", "cycles", {l2.intercept}, "intercept over 1 to 32 KB");
  micro::constant("tma_line_dram", "", "cycles", {dram.slope}, "slope, per line of 128 bytes");
  micro::constant("tma_line_l2", "", "cycles", {l2.slope}, "slope, per line of 128 bytes");
  micro::constant("bulk_latency_l2", "", "cycles", {bulk.intercept}, "intercept over 1 to 32 KB");
  micro::constant("bulk_line_l2", "", "cycles", {bulk.slope}, "slope, per line of 128 bytes");
  micro::constant("tma_descriptor_setup", "tma.descriptor_setup_cycles", "cycles", {l2.intercept - bulk.intercept},
                  "a box with a tensor map less a bulk copy, both from the L2");
  micro::constant("tma_descriptor_miss", "tma.descriptor_miss_cycles", "cycles", {first - later},
                  "first use of a tensor map in a kernel less later ones; its code was loaded before");
  const int rows = 8;
  const CUtensorMap map = kit::tensor_map(data.as<void>(), std::uint64_t{kFills} * kMostRows, kColumns, rows, kColumns);
  tensor_issue<<<1, 32, kSmem>>>(map, out.as<micro::Cycles>(), rows);
  micro::finish("tensor_issue");
  micro::constant("tma_issue", "tma.issue_cycles", "cycles", behind_first(out, 8), "8 boxes of 1 KB by one thread");
  bulk_issue<<<1, 32, kSmem>>>(data.as<unsigned char>(), out.as<micro::Cycles>(), rows);
  micro::finish("bulk_issue");
  micro::constant("bulk_issue", "tma.bulk_issue_cycles", "cycles", behind_first(out, 8), "8 copies of 1 KB by one thread");
}
