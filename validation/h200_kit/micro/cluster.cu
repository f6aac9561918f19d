// Clusters: reading another SM's shared memory, the way of a store and of an arrival to it, and the barrier of the cluster.
// sass remote_loads: LD\.E >= 16
// sass remote_stores: ST\.E >= 2
// sass remote_arrivals: SYNCS\.ARRIVE.*RED >= 1
// sass cluster_barriers: UCGABAR_ARV >= 16
// sass cluster_barriers: UCGABAR_WAIT >= 16

#include "micro.cuh"

using micro::clock_now;

namespace {
__device__ __forceinline__ unsigned rank() {
  unsigned r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
__device__ __forceinline__ unsigned remote(const void* mine, unsigned cta) {
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(micro::shared_address(mine)), "r"(cta));
  return address;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) remote_loads(micro::Cycles* out) {
  __shared__ unsigned zero[32];
  __shared__ unsigned word;
  zero[threadIdx.x] = 0;
  cluster_sync();
  if (threadIdx.x == 0 && rank() == 0) {
    const unsigned at = remote(zero, 1);
    micro::Cycles took = 0;
#pragma unroll 1
    for (int repeat = 0; repeat < 2; ++repeat) {
      unsigned v = 0;
      const micro::Cycles start = clock_now();
#pragma unroll
      for (int i = 0; i < 16; ++i) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at + v) : "memory");
      micro::use(v, &word);
      took = clock_now() - start;
    }
    out[blockIdx.x / 2] = took;
  }
  cluster_sync();   // nobody leaves while the other reads
}

// Each CTA stores the number of the round into the other's word and waits for it in its own.
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote_stores(micro::Cycles* out, unsigned rounds) {
  __shared__ unsigned word;
  if (threadIdx.x == 0) word = 0;
  cluster_sync();
  if (threadIdx.x == 0) {
    const unsigned there = remote(&word, rank() ^ 1), here = micro::shared_address(&word);
    const micro::Cycles start = clock_now();
#pragma unroll 1
    for (unsigned i = 1; i <= rounds; ++i) {
      unsigned seen = 0;
      if (rank() == 0) asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(i) : "memory");
      while (seen != i) asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(here) : "memory");
      if (rank() == 1) asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(i) : "memory");
    }
    if (rank() == 0) out[blockIdx.x / 2] = clock_now() - start;
  }
  cluster_sync();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) remote_arrivals(micro::Cycles* out, unsigned rounds) {
  __shared__ alignas(8) std::uint64_t bar;
  if (threadIdx.x == 0) {
    micro::barrier_init(&bar, 1);
    micro::barrier_init_fence();
  }
  cluster_sync();
  if (threadIdx.x == 0) {
    const unsigned there = remote(&bar, rank() ^ 1);
    const micro::Cycles start = clock_now();
#pragma unroll 1
    for (unsigned i = 0; i < rounds; ++i) {
      if (rank() == 1) micro::wait_parity(&bar, i & 1);
      asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      if (rank() == 0) micro::wait_parity(&bar, i & 1);
    }
    if (rank() == 0) out[blockIdx.x / 2] = clock_now() - start;
  }
  cluster_sync();
}

extern "C" __global__ void cluster_barriers(micro::Cycles* out) {
  micro::Cycles full = 0, relaxed = 0;
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {
    cluster_sync();
    micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) cluster_sync();
    full = clock_now() - start;
    start = clock_now();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
      asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
    }
    relaxed = clock_now() - start;
  }
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = full;
    out[2 * blockIdx.x + 1] = relaxed;
  }
}

namespace {

constexpr unsigned kClusters = 16, kRounds = 200;

std::vector<double> scaled(const kit::Buffer& buffer, double by) {
  std::vector<double> out;
  for (const micro::Cycles v : buffer.read<micro::Cycles>(kClusters)) out.push_back(v / by);
  return out;
}

void barriers_of(unsigned ctas, const char* full_key, const char* relaxed_key) {
  const unsigned grid = ctas * kClusters;
  kit::Buffer buffer(2 * grid * sizeof(micro::Cycles));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = ctas;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(128);
  config.attrs = &attribute;
  config.numAttrs = 1;
  KIT_CHECK(cudaLaunchKernelEx(&config, cluster_barriers, buffer.as<micro::Cycles>()));
  micro::finish("cluster_barriers");
  std::vector<double> full, relaxed;
  const auto read = buffer.read<micro::Cycles>(2 * std::size_t{grid});
  for (std::size_t i = 0; i < read.size(); i += 2) {
    full.push_back(read[i] / 16.0);
    relaxed.push_back(read[i + 1] / 16.0);
  }
  const std::string size = "_" + std::to_string(ctas) + "_ctas";
  micro::constant("cluster_barrier" + size, full_key, "cycles", full, "arrive.release and wait.acquire");
  micro::constant("cluster_barrier_relaxed" + size, relaxed_key, "cycles", relaxed, "arrive.relaxed and wait");
}

}  // namespace

MICRO(cluster) {
  kit::Buffer buffer(kClusters * sizeof(micro::Cycles));
  remote_loads<<<2 * kClusters, 32>>>(buffer.as<micro::Cycles>());
  micro::finish("remote_loads");
  micro::constant("cluster_load", "cluster.load_cycles", "cycles", scaled(buffer, 16), "dependent loads from the other CTA of two");
  for (int warm = 0; warm < 2; ++warm) remote_stores<<<2 * kClusters, 32>>>(buffer.as<micro::Cycles>(), kRounds);
  micro::finish("remote_stores");
  micro::constant("cluster_store_visible", "cluster.store_visible_cycles", "cycles", scaled(buffer, 2.0 * kRounds),
                  "half of a round trip: store, until the other CTA has read it");
  for (int warm = 0; warm < 2; ++warm) remote_arrivals<<<2 * kClusters, 32>>>(buffer.as<micro::Cycles>(), kRounds);
  micro::finish("remote_arrivals");
  micro::constant("cluster_arrive_visible", "cluster.arrive_visible_cycles", "cycles", scaled(buffer, 2.0 * kRounds),
                  "half of a round trip: remote arrival to the end of the wait");
  barriers_of(2, "cluster.barrier_cycles", "cluster.barrier_relaxed_cycles");
  barriers_of(4, "", "");
  barriers_of(8, "", "");
}
