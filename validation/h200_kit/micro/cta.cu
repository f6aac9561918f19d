// How CTAs follow each other: the gap on an SM between the end of one and the start of the next, and how fast a grid fills the chip.
// sass one_after_another: CS2R.*SR_CLOCK >= 2
// sass side_by_side: CS2R.*SR_CLOCK >= 2

#include <algorithm>
#include <map>

#include "micro.cuh"

namespace {
struct Times {
  unsigned sm;
  long long start, end;
};
}  // namespace

extern "C" __global__ void __launch_bounds__(384) one_after_another(Times* out, long long cycles) {
  if (threadIdx.x == 0) {
    const long long start = clock64();
    long long now = start;
    while (now - start < cycles) now = clock64();
    out[blockIdx.x] = {micro::sm_id(), start, now};
  }
}

extern "C" __global__ void __launch_bounds__(32) side_by_side(Times* out, long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  if (threadIdx.x == 0) out[blockIdx.x] = {micro::sm_id(), start, 0};
}

namespace {

std::map<unsigned, std::vector<Times>> by_sm(const kit::Buffer& buffer, std::size_t count) {
  std::map<unsigned, std::vector<Times>> out;
  for (const Times& t : buffer.read<Times>(count)) out[t.sm].push_back(t);
  for (auto& [sm, times] : out)
    std::sort(times.begin(), times.end(), [](const Times& a, const Times& b) { return a.start < b.start; });
  return out;
}

void gaps(int threads, const char* name, const char* key) {
  constexpr int kWaves = 6;
  const int smem = 227 * 1024 - 1024;   // a whole SM: one CTA at a time
  const int ctas = kWaves * kit::gpu().sms;
  kit::Buffer buffer(static_cast<std::size_t>(ctas) * sizeof(Times));
  KIT_CHECK(cudaFuncSetAttribute(one_after_another, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
  std::vector<double> samples;
  for (int repeat = 0; repeat < 5; ++repeat) {
    one_after_another<<<ctas, threads, smem>>>(buffer.as<Times>(), 20'000);
    micro::finish("one_after_another");
    for (const auto& [sm, times] : by_sm(buffer, static_cast<std::size_t>(ctas)))
      for (std::size_t i = 1; i < times.size(); ++i) samples.push_back(static_cast<double>(times[i].start - times[i - 1].end));
  }
  micro::constant(name, key, "cycles", samples, "last instruction of a CTA to first of the next on the same SM");
}

}  // namespace

MICRO(cta) {
  gaps(384, "cta_gap_384_threads", "launch.cta_gap_cycles");
  gaps(128, "cta_gap_128_threads", "");
  constexpr int kEach = 16;
  const int ctas = kEach * kit::gpu().sms;
  kit::Buffer buffer(static_cast<std::size_t>(ctas) * sizeof(Times));
  std::vector<double> samples;
  for (int repeat = 0; repeat < 10; ++repeat) {
    side_by_side<<<ctas, 32>>>(buffer.as<Times>(), 50'000);
    micro::finish("side_by_side");
    for (const auto& [sm, times] : by_sm(buffer, static_cast<std::size_t>(ctas)))
      if (times.size() > 1)
        samples.push_back(static_cast<double>(times.back().start - times.front().start) /
                          static_cast<double>(times.size() - 1) / kit::gpu().sms);
  }
  micro::constant("cta_dispatch", "launch.cta_dispatch_cycles", "cycles", samples,
                  "CTAs of one warp that all fit at once: distance of starts on an SM over the number of SMs");
}
