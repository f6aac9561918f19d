// Bytes a cycle between the L2 and one SM, and a pair of SMs that share a TPC (numbers 2i and 2i + 1), read and written.
// sass read_l2: LDG.E.128 >= 8
// sass write_l2: STG.E.128 >= 8

#include "micro.cuh"

namespace {
constexpr int kThreads = 1024, kUnroll = 8, kPasses = 16;
constexpr std::size_t kRegion = std::size_t{kThreads} * kUnroll * 16;   // bytes that one SM reads a pass: 128 KB
constexpr int kRegions = 8;
constexpr int kSmem = 227 * 1024 - 1024;   // one CTA an SM

struct Took {
  micro::Cycles cycles;
  unsigned sm;
};

__device__ __forceinline__ bool works(unsigned first, unsigned last) {
  const unsigned sm = micro::sm_id();
  return first <= sm && sm <= last;
}
}  // namespace

// Threads of the SMs `first` to `last` read; every SM its own regions. The others leave at once.
extern "C" __global__ void __launch_bounds__(kThreads) read_l2(const uint4* data, Took* out, unsigned first, unsigned last,
                                                              unsigned* sink) {
  if (!works(first, last)) return;
  const uint4* mine = data + (micro::sm_id() - first) * (kRegions * kRegion / 16) + threadIdx.x;
  unsigned sum = 0;
  __syncthreads();
  const micro::Cycles start = micro::clock_now();
  for (int pass = 0; pass < kPasses; ++pass) {
    const uint4* from = mine + (pass % kRegions) * (kRegion / 16);
    uint4 v[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + i * kThreads) : "memory");
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  __shared__ unsigned word;
  micro::use(sum, &word);
  __syncthreads();
  const micro::Cycles cycles = micro::clock_now() - start;
  if (sum == 1) *sink = sum;
  if (threadIdx.x == 0) out[micro::sm_id() - first] = {cycles, micro::sm_id()};
}

extern "C" __global__ void __launch_bounds__(kThreads) write_l2(uint4* data, Took* out, unsigned first, unsigned last) {
  if (!works(first, last)) return;
  uint4* mine = data + (micro::sm_id() - first) * (kRegions * kRegion / 16) + threadIdx.x;
  __syncthreads();
  const micro::Cycles start = micro::clock_now();
  for (int pass = 0; pass < kPasses; ++pass) {
    uint4* to = mine + (pass % kRegions) * (kRegion / 16);
#pragma unroll
    for (int i = 0; i < kUnroll; ++i)
      asm volatile("st.global.cg.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to + i * kThreads), "r"(0) : "memory");
  }
  __threadfence();   // they have arrived
  __syncthreads();
  const micro::Cycles cycles = micro::clock_now() - start;
  if (threadIdx.x == 0) out[micro::sm_id() - first] = {cycles, micro::sm_id()};
}

MICRO(l2_port) {
  constexpr double kBytes = static_cast<double>(kRegion) * kPasses;
  kit::Buffer data(2 * kRegions * kRegion), out(2 * sizeof(Took)), sink(sizeof(unsigned));
  KIT_CHECK(cudaMemset(data.as<void>(), 0, data.bytes()));
  KIT_CHECK(cudaFuncSetAttribute(read_l2, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem - 16));
  KIT_CHECK(cudaFuncSetAttribute(write_l2, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  const auto grid = static_cast<unsigned>(kit::gpu().sms);
  for (const unsigned sms : {1u, 2u}) {
    std::vector<double> reads, writes;
    for (unsigned first = 0; first + 2 <= grid; first += 10) {
      const auto collect = [&](std::vector<double>& samples) {
        for (const Took& t : out.read<Took>(sms))
          if (t.cycles != 0) samples.push_back(kBytes / static_cast<double>(t.cycles));
      };
      for (int pass = 0; pass < 2; ++pass) {   // the first pass fills the L2
        KIT_CHECK(cudaMemset(out.as<void>(), 0, out.bytes()));
        read_l2<<<grid, kThreads, kSmem - 16>>>(data.as<uint4>(), out.as<Took>(), first, first + sms - 1, sink.as<unsigned>());
        micro::finish("read_l2");
      }
      collect(reads);
      KIT_CHECK(cudaMemset(out.as<void>(), 0, out.bytes()));
      write_l2<<<grid, kThreads, kSmem>>>(data.as<uint4>(), out.as<Took>(), first, first + sms - 1);
      micro::finish("write_l2");
      collect(writes);
    }
    const std::string who = sms == 1 ? "one_sm" : "each_of_two_sms_of_a_tpc";
    micro::constant("l2_read_" + who, sms == 1 ? "resources.l2_to_sm.rate_per_cycle" : "", "bytes/cycle", reads, "LDG.128, L2 hits");
    micro::constant("l2_write_" + who, sms == 1 ? "resources.sm_to_l2.rate_per_cycle" : "", "bytes/cycle", writes,
                    "STG.128, until a fence says that they have arrived");
  }
}
