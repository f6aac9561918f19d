// Latency of an L2 hit line by line, seen from several SMs: its distribution has a near and a far part.
// sass chase: LDG.E >= 16

#include <algorithm>

#include "micro.cuh"

using micro::clock_now;

namespace {
constexpr int kLines = 4096, kWordsALine = 32, kHops = 16, kSms = 8;
}  // namespace

// Each line is read kHops times in a row, every address from the value before (0); the L1 is passed by.
extern "C" __global__ void chase(const unsigned* data, float* out, unsigned sm) {
  __shared__ unsigned word;
  if (threadIdx.x != 0 || micro::sm_id() != sm) return;
#pragma unroll 1
  for (int line = 0; line < kLines; ++line) {
    const unsigned* at = data + line * kWordsALine;
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");   // it is in the L2 now
    micro::use(v, &word);
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int hop = 0; hop < kHops; ++hop) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(at + v) : "memory");
    micro::use(v, &word);
    out[line] = static_cast<float>(clock_now() - start) / kHops;
  }
}

MICRO(l2_latency) {
  kit::Buffer data(std::size_t{kLines} * kWordsALine * sizeof(unsigned)), out(kLines * sizeof(float));
  KIT_CHECK(cudaMemset(data.as<void>(), 0, data.bytes()));
  const auto sms = static_cast<unsigned>(kit::gpu().sms);
  const double clock = micro::clock_read_cycles() / kHops;
  std::vector<double> all;
  for (unsigned i = 0; i < kSms; ++i) {
    for (int pass = 0; pass < 2; ++pass) {
      chase<<<sms * 2, 32>>>(data.as<unsigned>(), out.as<float>(), i * sms / kSms);
      micro::finish("chase");
    }
    for (const float v : out.read<float>(kLines)) all.push_back(static_cast<double>(v) - clock);
  }
  micro::constant("l2_hit", "", "cycles", all, "all lines, 8 SMs");
  // Two means: the lines nearer to one centre than to the other are one part.
  double near = kit::summary(all).p10, far = kit::summary(all).p90;
  std::vector<double> low, high;
  for (int round = 0; round < 20; ++round) {
    low.clear();
    high.clear();
    for (const double v : all) (v - near <= far - v ? low : high).push_back(v);
    const auto mean = [](const std::vector<double>& values, double before) {
      double sum = 0;
      for (const double v : values) sum += v;
      return values.empty() ? before : sum / static_cast<double>(values.size());
    };
    near = mean(low, near);
    far = mean(high, far);
  }
  micro::constant("l2_hit_near", "l2.latency_near_cycles", "cycles", low, "the lower of two clusters (two means)");
  if (!high.empty())
    micro::constant("l2_hit_far", far > 1.2 * near ? "l2.latency_far_cycles" : "", "cycles", high,
                    far > 1.2 * near ? "the upper of two clusters" : "the clusters lie too close together to be near and far");
  micro::constant("l2_hit_far_share", "", "fraction", {static_cast<double>(high.size()) / static_cast<double>(all.size())});
}
