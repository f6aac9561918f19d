// micro            all microbenchmarks      micro NAME ...   some
// micro --list     their names              micro --header   the columns of the CSV      micro --gpu   is there a GPU?

#include <cstdio>
#include <cstring>

#include "micro.cuh"

namespace micro {

namespace {
std::string running;
double before_mhz = 0;
struct Row {
  std::string name, key, unit, note;
  kit::Summary summary;
  std::size_t samples;
};
std::vector<Row> rows;

void run(const std::string& name) {
  const auto found = registered().find(name);
  if (found == registered().end()) kit::fail("there is no microbenchmark " + name + "; micro --list names them.");
  running = name;
  rows.clear();
  kit::clock_mhz();   // leaves the idle clock
  before_mhz = kit::clock_mhz();
  found->second();
  const double after_mhz = kit::clock_mhz();
  const std::string source = "h200_kit micro " + name + "; CUDA " + std::to_string(CUDART_VERSION) + "; driver " +
                             std::to_string(kit::gpu().driver);
  for (const Row& r : rows)
    kit::print_row({{"kind", "constant"}, {"gpu", kit::gpu().name}, {"case", name}, {"constant", r.name}, {"key", r.key},
                    {"value", kit::number(r.summary.median)}, {"unit", r.unit}, {"spread", kit::number(r.summary.spread())},
                    {"p10", kit::number(r.summary.p10)}, {"p90", kit::number(r.summary.p90)},
                    {"n_samples", std::to_string(r.samples)}, {"clock_mhz", kit::number((before_mhz + after_mhz) / 2)},
                    {"clock_before_mhz", kit::number(before_mhz)}, {"clock_after_mhz", kit::number(after_mhz)},
                    {"note", r.note}, {"source", source}});
}
}  // namespace

void constant(const std::string& name, const std::string& key, const std::string& unit, const std::vector<double>& samples,
              const std::string& note) {
  rows.push_back({name, key, unit, note, kit::summary(samples), samples.size()});
}

void finish(const char* what) {
  cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status != cudaSuccess) kit::fail(running + ": " + what + ": " + cudaGetErrorString(status));
}

}  // namespace micro

int main(int count, char** words) {
  if (count == 2 && std::strcmp(words[1], "--header") == 0) {
    kit::print_header();
    return 0;
  }
  if (count == 2 && std::strcmp(words[1], "--list") == 0) {
    for (const auto& [name, run] : micro::registered()) std::printf("%s\n", name.c_str());
    return 0;
  }
  const kit::Gpu& gpu = kit::gpu();
  if (count == 2 && std::strcmp(words[1], "--gpu") == 0) {
    std::printf("%s, %d SMs\n", gpu.name.c_str(), gpu.sms);
    return 0;
  }
  if (count == 1)
    for (const auto& [name, run] : micro::registered()) micro::run(name);
  for (int i = 1; i < count; ++i) micro::run(words[i]);
  return 0;
}
