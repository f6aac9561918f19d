#include "kernel.hpp"

#include <algorithm>
#include <memory>

namespace kit {
namespace {

constexpr int kWarmup = 5;
constexpr double kBudgetUs = 4e6;   // of all runs that count
constexpr int kMostRuns = 100, kFewestRuns = 10;

__global__ void empty_kernel() {}

}  // namespace

int run_kernel(const Kernel& kernel) {
  gpu();
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<void*> pointers;
  std::size_t bytes = 0;
  for (const Argument& a : kernel.arguments) {
    buffers.push_back(std::make_unique<Buffer>(std::max<std::size_t>(a.bytes, 16)));
    void* data = buffers.back()->as<void>();
    KIT_CHECK(cudaMemset(data, 0, buffers.back()->bytes()));
    if (!a.given.empty())
      KIT_CHECK(cudaMemcpy(data, a.given.data(), a.given.size() * sizeof(int), cudaMemcpyHostToDevice));
    else
      fill_random(data, a.elements, a.dtype, pointers.size() + 1);
    pointers.push_back(data);
    bytes += a.bytes;
  }
  if (kernel.init() != 0) fail(kernel.last_error());
  const auto once = [&] {
    if (kernel.call(pointers.data()) != 0) fail(kernel.last_error());
  };
  std::vector<double> first = event_times_us(kWarmup, flush_l2, once);
  const double before_mhz = clock_mhz();
  const double each_us = std::max(summary(first).median, 1.0);
  const int runs = std::clamp(static_cast<int>(kBudgetUs / (each_us + 100.0)), kFewestRuns, kMostRuns);
  const std::size_t flushed = flush_l2();
  const std::vector<double> times = event_times_us(runs, flush_l2, once);
  const double after_mhz = clock_mhz();
  const double floor_us =
      summary(event_times_us(50, flush_l2, [] { empty_kernel<<<1, 32>>>(); })).median;
  KIT_CHECK(cudaDeviceSynchronize());
  const Summary s = summary(times);
  const double mhz = (before_mhz + after_mhz) / 2;
  std::vector<std::pair<std::string, std::string>> cells = {
      {"kind", "kernel"}, {"gpu", gpu().name}, {"kernel", "tilelang:h200_kit"}, {"clock_mhz", number(mhz)},
      {"latency_us", number(s.median)}, {"cycles", std::to_string(static_cast<long long>(s.median * mhz + 0.5))},
      {"p10_us", number(s.p10)}, {"p90_us", number(s.p90)}, {"n_kernels", std::to_string(kernel.kernels)},
      {"n_samples", std::to_string(runs)}, {"gbps", number(static_cast<double>(bytes) / s.median / 1000)},
      {"bytes", std::to_string(bytes)}, {"clock_before_mhz", number(before_mhz)}, {"clock_after_mhz", number(after_mhz)},
      {"timer", "events"}, {"flush_bytes", std::to_string(flushed)}, {"floor_us", number(floor_us)}, {"source", kernel.source}};
  cells.insert(cells.end(), kernel.columns.begin(), kernel.columns.end());
  print_row(cells);
  return 0;
}

}  // namespace kit
