// __syncthreads by number of threads, and a named barrier among the 128 threads of one warp group.
// sass block_barriers: BAR.SYNC >= 32
// sass named_barriers: BAR.SYNC >= 32

#include "micro.cuh"

using micro::clock_now;

extern "C" __global__ void __launch_bounds__(1024) block_barriers(micro::Cycles* out) {
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {
    __syncthreads();
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < 32; ++i) asm volatile("barrier.sync.aligned 0;" ::: "memory");
    const micro::Cycles took = clock_now() - start;
    if (threadIdx.x == 0) out[blockIdx.x] = took;
  }
}

extern "C" __global__ void __launch_bounds__(384) named_barriers(micro::Cycles* out) {
  if (threadIdx.x < 128) {
#pragma unroll 1
    for (int repeat = 0; repeat < 2; ++repeat) {
      asm volatile("barrier.sync.aligned 1, 128;" ::: "memory");
      const micro::Cycles start = clock_now();
#pragma unroll
      for (int i = 0; i < 32; ++i) asm volatile("barrier.sync.aligned 1, 128;" ::: "memory");
      const micro::Cycles took = clock_now() - start;
      if (threadIdx.x == 0) out[blockIdx.x] = took;
    }
  }
}

namespace {
constexpr int kCtas = 64;
std::vector<double> each(const kit::Buffer& buffer) {
  std::vector<double> out;
  for (const micro::Cycles v : buffer.read<micro::Cycles>(kCtas)) out.push_back(v / 32.0);
  return out;
}
}  // namespace

MICRO(barriers) {
  kit::Buffer buffer(kCtas * sizeof(micro::Cycles));
  std::vector<double> warps, medians;
  for (const int threads : {64, 128, 256, 384, 512, 1024}) {
    block_barriers<<<kCtas, threads>>>(buffer.as<micro::Cycles>());
    micro::finish("block_barriers");
    const auto samples = each(buffer);
    micro::constant("syncthreads_" + std::to_string(threads), "", "cycles", samples);
    warps.push_back(threads / 32.0);
    medians.push_back(kit::summary(samples).median);
  }
  const kit::Line line = kit::fit(warps, medians);
  micro::constant("syncthreads_base", "sync.base_cycles", "cycles", {line.intercept}, "least squares over 2 to 32 warps");
  micro::constant("syncthreads_per_warp", "sync.per_warp_cycles", "cycles", {line.slope}, "least squares over 2 to 32 warps");
  named_barriers<<<kCtas, 384>>>(buffer.as<micro::Cycles>());
  micro::finish("named_barriers");
  micro::constant("named_barrier_128", "", "cycles", each(buffer), "barrier.sync 1, 128 in a CTA of 384 threads");
}
