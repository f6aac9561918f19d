// Reading the clock twice in a row: how much of a single timed event is the timing.
// sass reads: CS2R.*SR_CLOCK >= 2

#include "micro.cuh"

extern "C" __global__ void reads(micro::Cycles* out) {
#pragma unroll 1
  for (int repeat = 0; repeat < 4; ++repeat) {
    const micro::Cycles start = micro::clock_now();
    out[threadIdx.x] = micro::clock_now() - start;
  }
}

namespace {
std::vector<double> sampled() {
  kit::Buffer buffer(32 * sizeof(micro::Cycles));
  reads<<<1, 32>>>(buffer.as<micro::Cycles>());
  micro::finish("reads");
  std::vector<double> out;
  for (const micro::Cycles v : buffer.read<micro::Cycles>(32)) out.push_back(v);
  return out;
}
}  // namespace

double micro::clock_read_cycles() {
  static const double cycles = kit::summary(sampled()).median;
  return cycles;
}

MICRO(clock) { micro::constant("clock_read", "", "cycles", sampled(), "taken off from single events"); }
