// mbarriers: what arriving costs, a wait that is already over, and the way from an arrival in one warp to the wait in another.
// sass arrivals: SYNCS.ARRIVE >= 32
// sass waits: SYNCS.PHASECHK >= 32
// sass ping_pong: SYNCS.ARRIVE >= 2
// sass ping_pong: SYNCS.PHASECHK >= 2

#include "micro.cuh"

using micro::arrive;
using micro::barrier_init;
using micro::clock_now;
using micro::wait_parity;

extern "C" __global__ void arrivals(micro::Cycles* out) {
  __shared__ alignas(8) std::uint64_t bar;
  if (threadIdx.x != 0) return;
  barrier_init(&bar, 1000);
  micro::barrier_init_fence();
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < 32; ++i) arrive(&bar);
    out[blockIdx.x] = clock_now() - start;
  }
}

extern "C" __global__ void waits(micro::Cycles* out) {
  __shared__ alignas(8) std::uint64_t bars[32];
  if (threadIdx.x != 0) return;
  for (auto& bar : bars) barrier_init(&bar, 1);
  micro::barrier_init_fence();
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (auto& bar : bars) arrive(&bar);
    __nanosleep(2000);
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < 32; ++i) wait_parity(&bars[i], static_cast<unsigned>(repeat));
    out[blockIdx.x] = clock_now() - start;
  }
}

extern "C" __global__ void ping_pong(micro::Cycles* out, int rounds, unsigned other) {
  __shared__ alignas(8) std::uint64_t there, back;
  if (threadIdx.x == 0) {
    barrier_init(&there, 1);
    barrier_init(&back, 1);
    micro::barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const micro::Cycles start = clock_now();
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
      arrive(&there);
      wait_parity(&back, i & 1);
    }
    out[blockIdx.x] = clock_now() - start;
  } else if (threadIdx.x == 32 * other) {
#pragma unroll 1
    for (int i = 0; i < rounds; ++i) {
      wait_parity(&there, i & 1);
      arrive(&back);
    }
  }
}

namespace {
std::vector<double> scaled(const kit::Buffer& buffer, std::size_t count, double by) {
  std::vector<double> out;
  for (const micro::Cycles v : buffer.read<micro::Cycles>(count)) out.push_back(v / by);
  return out;
}
}  // namespace

MICRO(mbarrier) {
  constexpr int kCtas = 64, kRounds = 200;
  kit::Buffer buffer(kCtas * sizeof(micro::Cycles));
  for (int warm = 0; warm < 2; ++warm) arrivals<<<kCtas, 32>>>(buffer.as<micro::Cycles>());
  micro::finish("arrivals");
  micro::constant("mbarrier_arrive", "mbarrier.arrive_cycles", "cycles", scaled(buffer, kCtas, 32), "one thread, one after the other");
  for (int warm = 0; warm < 2; ++warm) waits<<<kCtas, 32>>>(buffer.as<micro::Cycles>());
  micro::finish("waits");
  const std::vector<double> over = scaled(buffer, kCtas, 32);
  micro::constant("mbarrier_wait_over", "mbarrier.wait_cycles", "cycles", over, "phase long complete");
  const double wait = kit::summary(over).median;
  for (const unsigned other : {1u, 4u}) {
    for (int warm = 0; warm < 2; ++warm) ping_pong<<<kCtas, 160>>>(buffer.as<micro::Cycles>(), kRounds, other);
    micro::finish("ping_pong");
    const std::string where = other == 4 ? "_same_scheduler" : "_other_scheduler";
    std::vector<double> half = scaled(buffer, kCtas, 2.0 * kRounds);
    micro::constant("mbarrier_wake_up" + where, "", "cycles", half, "arrival in one warp to the end of the wait in another");
    for (double& v : half) v -= wait;
    micro::constant("mbarrier_visible" + where, other == 4 ? "" : "mbarrier.arrive_visible_cycles", "cycles", half,
                    "the same less a wait that is over");
  }
}
