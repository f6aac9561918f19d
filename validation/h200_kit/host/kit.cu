#include "kit.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace kit {

void fail(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", what.c_str());
  std::exit(1);
}

void check(cudaError_t status, const char* what, const char* file, int line) {
  if (status == cudaSuccess) return;
  const char* name = std::strrchr(file, '/');
  fail(std::string(name != nullptr ? name + 1 : file) + ":" + std::to_string(line) + ": " + what + ": " +
       cudaGetErrorString(status));
}

const Gpu& gpu() {
  static const Gpu found = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver)
      fail("no GPU here: no NVIDIA driver is installed that CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
           std::to_string(CUDART_VERSION % 1000 / 10) + " can use.");
    if (status != cudaSuccess || count == 0)
      fail(std::string("no GPU here: ") + (status != cudaSuccess ? cudaGetErrorString(status) : "the driver finds none") + ".");
    cudaDeviceProp about{};
    KIT_CHECK(cudaGetDeviceProperties(&about, 0));
    if (about.major != 9 || about.minor != 0)
      fail(std::string(about.name) + " is no Hopper GPU (sm_90); this kit is compiled for sm_90a.");
    Gpu made;
    made.name = about.name;
    made.sms = about.multiProcessorCount;
    made.l2_bytes = static_cast<std::size_t>(about.l2CacheSize);
    KIT_CHECK(cudaDriverGetVersion(&made.driver));
    return made;
  }();
  return found;
}

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) { KIT_CHECK(cudaMalloc(&data_, bytes)); }

Buffer::~Buffer() { cudaFree(data_); }

namespace {

__device__ float normal(std::uint64_t index, std::uint64_t seed) {
  // Two rounds of splitmix64 give two uniform numbers; Box-Muller makes them normal.
  std::uint64_t z = index * 0x9E3779B97F4A7C15ull + seed;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  const float u = (static_cast<float>(z >> 40) + 1.0f) * (1.0f / 16777217.0f);
  const float v = static_cast<float>((z >> 8) & 0xFFFFFFu) * (1.0f / 16777216.0f);
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

template <typename T>
__device__ T made(float x) { return static_cast<T>(x); }
template <>
__device__ std::int8_t made<std::int8_t>(float x) { return static_cast<std::int8_t>(fminf(fmaxf(3.0f * x, -8.0f), 7.0f)); }
template <>
__device__ std::uint8_t made<std::uint8_t>(float x) { return static_cast<std::uint8_t>(fminf(fabsf(5.0f * x), 15.0f)); }

template <typename T>
__global__ void fill_kernel(T* data, std::size_t elements, std::uint64_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < elements; i += std::size_t{gridDim.x} * blockDim.x)
    data[i] = made<T>(normal(i, seed));
}

template <typename T>
void fill(void* data, std::size_t elements, std::uint64_t seed) {
  fill_kernel<T><<<4 * gpu().sms, 256>>>(static_cast<T*>(data), elements, seed);
  KIT_CHECK(cudaGetLastError());
}

__global__ void spin_kernel(std::uint64_t* out, std::uint64_t nanoseconds) {
  std::uint64_t begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
  now = begin;
  const long long cycles = clock64();
  while (now - begin < nanoseconds) asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  out[0] = static_cast<std::uint64_t>(clock64() - cycles);
  out[1] = now - begin;
}

void spin(std::uint64_t* out, std::uint64_t nanoseconds) {
  spin_kernel<<<1, 1>>>(out, nanoseconds);
  KIT_CHECK(cudaGetLastError());
}

}  // namespace

void fill_random(void* data, std::size_t elements, const std::string& dtype, std::uint64_t seed) {
  if (dtype == "float16") return fill<__half>(data, elements, seed);
  if (dtype == "bfloat16") return fill<__nv_bfloat16>(data, elements, seed);
  if (dtype == "float32" || dtype == "tfloat32") return fill<float>(data, elements, seed);
  if (dtype.rfind("float8_e4m3", 0) == 0) return fill<__nv_fp8_e4m3>(data, elements, seed);
  if (dtype.rfind("float8_e5m2", 0) == 0) return fill<__nv_fp8_e5m2>(data, elements, seed);
  if (dtype == "int8") return fill<std::int8_t>(data, elements, seed);
  if (dtype == "uint8") return fill<std::uint8_t>(data, elements, seed);
}

double clock_mhz() {
  Buffer out(2 * sizeof(std::uint64_t));
  spin(out.as<std::uint64_t>(), 3'000'000);
  const auto read = out.read<std::uint64_t>(2);
  return 1000.0 * static_cast<double>(read[0]) / static_cast<double>(read[1]);
}

std::size_t flush_l2() {
  static Buffer written(2 * gpu().l2_bytes);
  KIT_CHECK(cudaMemsetAsync(written.as<void>(), 0, written.bytes()));
  return written.bytes();
}

CUtensorMap tensor_map(void* base, std::uint64_t rows, std::uint64_t columns, std::uint32_t box_rows, std::uint32_t box_columns) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                              const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
    KIT_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status));
    if (status != cudaDriverEntryPointSuccess) fail("the driver has no cuTensorMapEncodeTiled.");
    return reinterpret_cast<Encode>(found);
  }();
  CUtensorMap made{};
  const cuuint64_t dims[2] = {columns, rows};
  const cuuint64_t strides[1] = {columns * 2};
  const cuuint32_t box[2] = {box_columns, box_rows};
  const cuuint32_t steps[2] = {1, 1};
  const auto swizzle = box_columns == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
  const CUresult status = encode(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base, dims, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) fail("cuTensorMapEncodeTiled: status " + std::to_string(static_cast<int>(status)));
  return made;
}

Summary summary(std::vector<double> samples) {
  if (samples.empty()) fail("a benchmark has no samples.");
  std::sort(samples.begin(), samples.end());
  const auto rank = [&](double share) {
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(samples.size())));
    return samples[std::max<std::size_t>(at, 1) - 1];
  };
  const std::size_t half = samples.size() / 2;
  const double median = samples.size() % 2 != 0 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
  return {median, rank(0.1), rank(0.9)};
}

Line fit(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sx += x[i];
    sy += y[i];
    sxx += x[i] * x[i];
    sxy += x[i] * y[i];
  }
  Line line;
  line.slope = (n * sxy - sx * sy) / (n * sxx - sx * sx);
  line.intercept = (sy - line.slope * sx) / n;
  return line;
}

std::vector<double> event_times_us(int repeats, const std::function<void()>& before, const std::function<void()>& work) {
  constexpr std::uint64_t kAheadNanoseconds = 500'000;
  std::vector<cudaEvent_t> start(static_cast<std::size_t>(repeats)), end(static_cast<std::size_t>(repeats));
  Buffer unused(2 * sizeof(std::uint64_t));
  std::vector<double> out;
  for (std::size_t i = 0; i < start.size(); ++i) {
    KIT_CHECK(cudaEventCreate(&start[i]));
    KIT_CHECK(cudaEventCreate(&end[i]));
  }
  spin(unused.as<std::uint64_t>(), kAheadNanoseconds);
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (before) before();
    KIT_CHECK(cudaEventRecord(start[i]));
    work();
    KIT_CHECK(cudaEventRecord(end[i]));
  }
  KIT_CHECK(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < start.size(); ++i) {
    float ms = 0;
    KIT_CHECK(cudaEventElapsedTime(&ms, start[i], end[i]));
    out.push_back(1000.0 * static_cast<double>(ms));
    KIT_CHECK(cudaEventDestroy(start[i]));
    KIT_CHECK(cudaEventDestroy(end[i]));
  }
  return out;
}

namespace {

// Rows of kernels have the columns of validation/measured/*.csv; rows of constants fill those from `constant` on.
const char* const kColumns[] = {
    "kind", "gpu", "kernel", "op", "case", "dtype", "acc_dtype", "m", "n", "k", "trans_a", "trans_b", "scale_mode", "tile_m",
    "tile_n", "tile_k", "stages", "clock_mhz", "latency_us", "cycles", "p10_us", "p90_us", "n_kernels", "n_samples", "tflops",
    "gbps", "flops", "bytes", "shape", "clock_before_mhz", "clock_after_mhz", "timer", "flush_bytes", "floor_us", "constant",
    "key", "value", "unit", "spread", "p10", "p90", "note", "source"};

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

void print_header() {
  std::string line;
  for (const char* name : kColumns) line += std::string(line.empty() ? "" : ",") + name;
  std::printf("%s\n", line.c_str());
}

void print_row(const std::vector<std::pair<std::string, std::string>>& cells) {
  std::string line;
  std::size_t used = 0;
  for (const char* name : kColumns) {
    if (name != kColumns[0]) line += ",";
    for (const auto& [column, value] : cells)
      if (column == name) {
        line += quoted(value);
        ++used;
        break;
      }
  }
  if (used != cells.size()) fail("a row names a column that does not exist, or one twice.");
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace kit
