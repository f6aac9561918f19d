// Groups of n wgmma: the interval of one (slope), what a group takes besides (intercept), and what issuing one costs; then what it
// adds that the operand descriptors follow a ring slot that is known only at run time.
// sass group: HGMMA >= 1
// sass group: WARPGROUP.DEPBAR >= 1
// sass ring: HGMMA >= 4

#include "micro.cuh"
#include "wgmma.cuh"

using micro::clock_now;

namespace {

constexpr int kStages = 3, kRepeats = 8;
constexpr int kStageBytes = 64 * 128 + 256 * 128;   // A: 64 rows of 128 bytes, B: up to 256
constexpr int kSmem = kStages * kStageBytes + 1024;

__device__ __forceinline__ unsigned char* cleared_smem() {
  extern __shared__ unsigned char raw[];
  const unsigned skip = (1024u - micro::shared_address(raw) % 1024u) % 1024u;
  for (int i = threadIdx.x; i < kStages * kStageBytes / 4; i += blockDim.x) reinterpret_cast<unsigned*>(raw + skip)[i] = 0;
  micro::fence_proxy_async();
  __syncthreads();
  return raw + skip;
}

template <int kN, bool kRegisters>
__device__ __forceinline__ void one(float (&d)[kN / 2], const unsigned (&a)[4], std::uint64_t da, std::uint64_t db) {
  if constexpr (kRegisters)
    micro::wgmma_rs_128(d, a, db);
  else if constexpr (kN == 64)
    micro::wgmma_ss_64(d, da, db);
  else if constexpr (kN == 128)
    micro::wgmma_ss_128(d, da, db);
  else
    micro::wgmma_ss_256(d, da, db);
}

}  // namespace

template <int kN, bool kRegisters, int kCount>
__global__ void __launch_bounds__(128) group(micro::Cycles* out, float* sink) {
  unsigned char* smem = cleared_smem();
  const std::uint64_t da = micro::held(micro::descriptor(micro::shared_address(smem)));
  const std::uint64_t db = micro::held(micro::descriptor(micro::shared_address(smem + 64 * 128)));
  unsigned a[4];   // zeros that the compiler does not know: it would set known ones again before each use
  for (int i = 0; i < 4; ++i) a[i] = reinterpret_cast<volatile unsigned*>(smem)[i];
  float d[kN / 2] = {};
  micro::Cycles issued = 0, done = 0;
#pragma unroll 1
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    __syncthreads();
    micro::wgmma_fence();
    const micro::Cycles start = clock_now();
#pragma unroll
    for (int i = 0; i < kCount; ++i) one<kN, kRegisters>(d, a, da + 2 * (i % 4), db + 2 * (i % 4));   // 16 columns are 32 bytes
    micro::wgmma_commit();
    issued = clock_now() - start;
    micro::wgmma_wait();
    done = clock_now() - start;
  }
  float sum = 0;
  for (const float v : d) sum += v;
  if (sum != 0.0f) *sink = sum;
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = issued;
    out[2 * blockIdx.x + 1] = done;
  }
}

// kSlots = 1: the same operands in every step. kSlots = 3: a ring, the slot found as a counter modulo the ring's length.
template <int kSlots>
__global__ void __launch_bounds__(128) ring(micro::Cycles* out, float* sink, int steps, unsigned counter) {
  unsigned char* smem = cleared_smem();
  const unsigned base = micro::shared_address(smem);
  float d[64] = {};
  micro::Cycles took = 0;
#pragma unroll 1
  for (int repeat = 0; repeat < 2; ++repeat) {
    __syncthreads();
    const micro::Cycles start = clock_now();
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const unsigned stage = base + (counter++ % kSlots) * kStageBytes;
      const std::uint64_t da = micro::descriptor(stage), db = micro::descriptor(stage + 64 * 128);
      micro::wgmma_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) micro::wgmma_ss_128(d, da + 2 * i, db + 2 * i);
      micro::wgmma_commit();
      micro::wgmma_wait();
    }
    took = clock_now() - start;
  }
  float sum = 0;
  for (const float v : d) sum += v;
  if (sum != 0.0f) *sink = sum;
  if (threadIdx.x == 0) out[blockIdx.x] = took;
}

namespace {

constexpr int kCtas = 32;

template <int kN, bool kRegisters, int kCount>
void sample(const kit::Buffer& buffer, std::vector<double>& counts, std::vector<double>& issued, std::vector<double>& done) {
  const auto kernel = group<kN, kRegisters, kCount>;
  KIT_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  kernel<<<kCtas, 128, kSmem>>>(buffer.as<micro::Cycles>(), buffer.as<float>() + 4 * kCtas);
  micro::finish("group");
  std::vector<double> i, d;
  const auto read = buffer.read<micro::Cycles>(2 * kCtas);
  for (std::size_t at = 0; at < read.size(); at += 2) {
    i.push_back(read[at]);
    d.push_back(read[at + 1]);
  }
  counts.push_back(kCount);
  issued.push_back(kit::summary(i).median);
  done.push_back(kit::summary(d).median);
  const std::string name = std::string("wgmma_") + (kRegisters ? "rs" : "ss") + "_n" + std::to_string(kN) + "_group_of_" +
                           std::to_string(kCount);
  micro::constant(name, "", "cycles", d, "first issue to the end of the wait");
}

template <int kN, bool kRegisters>
void groups(const kit::Buffer& buffer, const std::string& tail_key, const std::string& issue_key) {
  std::vector<double> counts, issued, done;
  sample<kN, kRegisters, 1>(buffer, counts, issued, done);
  sample<kN, kRegisters, 2>(buffer, counts, issued, done);
  sample<kN, kRegisters, 4>(buffer, counts, issued, done);
  sample<kN, kRegisters, 8>(buffer, counts, issued, done);
  sample<kN, kRegisters, 16>(buffer, counts, issued, done);
  const std::string name = std::string("wgmma_") + (kRegisters ? "rs" : "ss") + "_n" + std::to_string(kN);
  const kit::Line line = kit::fit(counts, done);
  micro::constant(name + "_interval", "", "cycles", {line.slope}, "slope over groups of 1 to 16");
  micro::constant(name + "_tail", tail_key, "cycles", {line.intercept - micro::clock_read_cycles()},
                  "intercept over groups of 1 to 16, first issue and wait included");
  micro::constant(name + "_issue", issue_key, "cycles", {issued[1] - issued[0]}, "second wgmma of a group, until it is issued");
}

template <int kSlots>
double step_cycles(const kit::Buffer& buffer, std::vector<double>& samples) {
  constexpr int kSteps = 96;
  const auto kernel = ring<kSlots>;
  KIT_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem));
  kernel<<<kCtas, 128, kSmem>>>(buffer.as<micro::Cycles>(), buffer.as<float>() + 4 * kCtas, kSteps, 0);
  micro::finish("ring");
  samples.clear();
  for (const micro::Cycles v : buffer.read<micro::Cycles>(kCtas)) samples.push_back(static_cast<double>(v) / kSteps);
  return kit::summary(samples).median;
}

}  // namespace

MICRO(wgmma) {
  kit::Buffer buffer(8 * kCtas * sizeof(micro::Cycles));
  groups<64, false>(buffer, "", "");
  groups<128, false>(buffer, "wgmma.tail_cycles", "wgmma.issue_cycles");
  groups<256, false>(buffer, "", "");
  groups<128, true>(buffer, "wgmma.tail_rs_cycles", "wgmma.issue_rs_cycles");
  std::vector<double> samples;
  const double fixed = step_cycles<1>(buffer, samples);
  micro::constant("wgmma_step_fixed_slot", "", "cycles", samples, "loop of 4 x m64n128k16, drained every step");
  const double moving = step_cycles<kStages>(buffer, samples);
  micro::constant("wgmma_step_ring_of_3", "", "cycles", samples, "the same, slot = counter % 3");
  micro::constant("wgmma_ring_slot", "", "cycles", {moving - fixed}, "what a slot known only at run time adds to a step");
}
