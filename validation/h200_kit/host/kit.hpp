// What the microbenchmarks and the kernels share on the host: the GPU, its clock, the cold L2, statistics, rows of the CSV.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kit {

// Prints "error: WHAT" and ends the program with status 1.
[[noreturn]] void fail(const std::string& what);

void check(cudaError_t status, const char* what, const char* file, int line);
#define KIT_CHECK(call) ::kit::check((call), #call, __FILE__, __LINE__)

struct Gpu {
  std::string name;
  int sms = 0;
  std::size_t l2_bytes = 0;
  int driver = 0;   // such as 13000
};

// The GPU in use. Fails with one line if there is none, or if it is no Hopper.
const Gpu& gpu();

// Device memory that is freed with the object.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  template <typename T>
  T* as() const { return static_cast<T*>(data_); }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  std::vector<T> read(std::size_t count) const {
    std::vector<T> out(count);
    KIT_CHECK(cudaMemcpy(out.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Fills a tensor with standard normal numbers ("float16", "bfloat16", "float32", "float8_e4m3", "float8_e5m2"), small integers
// ("int8", "uint8") or zeros (any other type).
void fill_random(void* data, std::size_t elements, const std::string& dtype, std::uint64_t seed);

// SM clock in MHz: a kernel spins for some milliseconds and reads clock64 and globaltimer. Runs behind what was launched before.
double clock_mhz();

// Writes twice the L2, so that nothing older stands in it. Asynchronous.
std::size_t flush_l2();

// A tensor map of a row-major matrix of 16-bit elements, boxes swizzled by 128 bytes when a box row is 128 bytes wide.
CUtensorMap tensor_map(void* base, std::uint64_t rows, std::uint64_t columns, std::uint32_t box_rows, std::uint32_t box_columns);

struct Summary {
  double median = 0, p10 = 0, p90 = 0;
  double spread() const { return median != 0 ? (p90 - p10) / median : 0; }
};
Summary summary(std::vector<double> samples);

// Least squares: y = intercept + slope * x.
struct Line {
  double intercept = 0, slope = 0;
};
Line fit(const std::vector<double>& x, const std::vector<double>& y);

// Time in microseconds between two events around `work`, `repeats` times, `before` ahead of the first event. The launches are
// queued behind a kernel that spins, so that the host is never what is waited for.
std::vector<double> event_times_us(int repeats, const std::function<void()>& before, const std::function<void()>& work);

// Prints the names of all columns.
void print_header();

// Prints one row; columns that are not named stay empty. Fails if a column does not exist.
void print_row(const std::vector<std::pair<std::string, std::string>>& cells);

std::string number(double value);

}  // namespace kit
