// Straight code that runs twice: the first run fetches its instructions, the second finds them where they fit a cache.
// sass straight_8: FFMA >= 512
// sass straight_32: FFMA >= 2048
// sass straight_128: FFMA >= 8192
// sass straight_128_more: FFMA >= 8192

#include "micro.cuh"

using micro::clock_now;

namespace {
#define FMA4 asm volatile("fma.rn.f32 %0, %0, %4, %5;\n fma.rn.f32 %1, %1, %4, %5;\n fma.rn.f32 %2, %2, %4, %5;\n" \
                          "fma.rn.f32 %3, %3, %4, %5;" : "+f"(v0), "+f"(v1), "+f"(v2), "+f"(v3) : "f"(a), "f"(b));
#define FMA16 FMA4 FMA4 FMA4 FMA4
#define FMA64 FMA16 FMA16 FMA16 FMA16
#define FMA256 FMA64 FMA64 FMA64 FMA64
#define FMA512 FMA256 FMA256
#define FMA2048 FMA512 FMA512 FMA512 FMA512
#define FMA8192 FMA2048 FMA2048 FMA2048 FMA2048

constexpr int kPasses = 3, kInstructionBytes = 16;
}  // namespace

#define STRAIGHT(name, body)                                              \
  extern "C" __global__ void name(micro::Cycles* out, float a, float b, float* sink) { \
    float v0 = a, v1 = b, v2 = a, v3 = b;                                 \
    _Pragma("unroll 1") for (int pass = 0; pass < kPasses; ++pass) {      \
      const micro::Cycles start = clock_now();                                 \
      body out[pass] = clock_now() - start;                               \
    }                                                                     \
    if (v0 + v1 + v2 + v3 == 1.0f) *sink = v0;                            \
  }

STRAIGHT(straight_8, FMA512)
STRAIGHT(straight_32, FMA2048)
STRAIGHT(straight_128, FMA8192)
STRAIGHT(straight_128_more, FMA8192)   // for evict(): the same, elsewhere

namespace {

// Other code on every SM, so that the caches of instructions hold that, and then a flush of the L2.
void evict() {
  kit::Buffer out(kPasses * sizeof(micro::Cycles)), sink(sizeof(float));
  for (const auto other : {straight_128, straight_128_more})
    other<<<kit::gpu().sms, 32>>>(out.as<micro::Cycles>(), 0.5f, 0.25f, sink.as<float>());
  micro::finish("evict");
  kit::flush_l2();
}

template <typename Kernel>
void sample(Kernel kernel, int instructions) {
  kit::Buffer out(kPasses * sizeof(micro::Cycles)), sink(sizeof(float));
  std::vector<double> cold, warm;
  for (int repeat = 0; repeat < 20; ++repeat) {
    evict();
    kernel<<<1, 32>>>(out.as<micro::Cycles>(), 0.5f, 0.25f, sink.as<float>());
    micro::finish("straight");
    const auto read = out.read<micro::Cycles>(kPasses);
    const double lines = instructions * kInstructionBytes / 128.0;
    cold.push_back((static_cast<double>(read[0]) - read[kPasses - 1]) / lines);
    warm.push_back(static_cast<double>(read[kPasses - 1]) / instructions);
  }
  const std::string size = "_" + std::to_string(instructions * kInstructionBytes / 1024) + "_kb";
  micro::constant("icache_first_pass" + size, "", "cycles", cold,
                  "what 128 bytes of code cost more in the first pass; other code ran and the L2 was flushed before; one warp");
  micro::constant("icache_later_pass" + size, "", "cycles", warm, "an instruction in the last pass");
}

}  // namespace

MICRO(icache) {
  sample(straight_8, 512);
  sample(straight_32, 2048);
  sample(straight_128, 8192);
}
