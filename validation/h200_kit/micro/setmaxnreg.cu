// setmaxnreg: a warp group gives registers back, then another takes them.
// sass registers: USETMAXREG >= 2

#include "micro.cuh"

using micro::clock_now;

// 168 registers a thread at the start: 504 of 512 for three warp groups of 128 threads.
extern "C" __global__ void __launch_bounds__(384, 1) registers(micro::Cycles* out) {
  const int group = threadIdx.x / 128;
  micro::Cycles took = 0;
  if (group == 0) {
    const micro::Cycles start = clock_now();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
    took = clock_now() - start;
    asm volatile("barrier.sync.aligned 1, 256;" ::: "memory");
  } else if (group == 1) {
    asm volatile("barrier.sync.aligned 1, 256;" ::: "memory");
    const micro::Cycles start = clock_now();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
    took = clock_now() - start;
  }
  if (threadIdx.x % 128 == 0 && group < 2) out[2 * blockIdx.x + group] = took;
}

MICRO(setmaxnreg) {
  const int ctas = kit::gpu().sms;
  kit::Buffer buffer(2 * static_cast<std::size_t>(ctas) * sizeof(micro::Cycles));
  for (int warm = 0; warm < 2; ++warm) registers<<<ctas, 384>>>(buffer.as<micro::Cycles>());
  micro::finish("registers");
  const auto read = buffer.read<micro::Cycles>(2 * static_cast<std::size_t>(ctas));
  const double clock = micro::clock_read_cycles();
  std::vector<double> dec, inc;
  for (std::size_t i = 0; i < read.size(); i += 2) {
    dec.push_back(read[i] - clock);
    inc.push_back(read[i + 1] - clock);
  }
  micro::constant("setmaxnreg_dec", "", "cycles", dec, "168 to 24 registers");
  micro::constant("setmaxnreg_inc", "control.setmaxnreg_cycles", "cycles", inc, "168 to 240 registers, which are free");
}
