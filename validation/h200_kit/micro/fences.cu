// Fences and __syncwarp, one warp, nothing outstanding; the proxy fence also behind a store to shared memory.
// sass fences: FENCE.VIEW.ASYNC >= 32
// sass fences: MEMBAR\.\w+\.CTA >= 48
// sass fences: MEMBAR\.\w+\.GPU >= 16
// sass fences: STS >= 16

#include "micro.cuh"

using micro::clock_now;

enum Fence { kProxy, kProxyBehindStore, kCta, kGpu, kWarp, kFences };

extern "C" __global__ void fences(micro::Cycles* out) {
  __shared__ volatile unsigned word[32];
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {   // the first pass loads the code
    micro::Cycles took[kFences];
    micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) micro::fence_proxy_async();
    took[kProxy] = clock_now() - start;
    start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      word[threadIdx.x] = i;
      micro::fence_proxy_async();
    }
    took[kProxyBehindStore] = clock_now() - start;
    start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) asm volatile("fence.acq_rel.cta;" ::: "memory");
    took[kCta] = clock_now() - start;
    start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    took[kGpu] = clock_now() - start;
    start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) __syncwarp();
    took[kWarp] = clock_now() - start;
    if (threadIdx.x == 0)
      for (int i = 0; i < kFences; ++i) out[blockIdx.x * kFences + i] = took[i];
  }
}

MICRO(fences) {
  constexpr int kCtas = 32;
  kit::Buffer buffer(kCtas * kFences * sizeof(micro::Cycles));
  for (int warm = 0; warm < 2; ++warm) fences<<<kCtas, 32>>>(buffer.as<micro::Cycles>());
  micro::finish("fences");
  const auto read = buffer.read<micro::Cycles>(kCtas * kFences);
  const auto samples = [&](Fence which) {
    std::vector<double> out;
    for (int i = 0; i < kCtas; ++i) out.push_back(read[static_cast<std::size_t>(i * kFences + which)] / 16.0);
    return out;
  };
  micro::constant("fence_proxy_async", "sync.fence_proxy_async_cycles", "cycles", samples(kProxy));
  micro::constant("fence_proxy_async_behind_store", "", "cycles", samples(kProxyBehindStore), "store included");
  micro::constant("fence_cta", "sync.fence_cta_cycles", "cycles", samples(kCta), "fence.acq_rel.cta, idle");
  micro::constant("fence_gpu", "sync.fence_gpu_cycles", "cycles", samples(kGpu), "fence.acq_rel.gpu, idle");
  micro::constant("syncwarp", "sync.warp_sync_cycles", "cycles", samples(kWarp), "all lanes together: may compile to nothing");
}
