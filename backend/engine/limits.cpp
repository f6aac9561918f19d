#include "limits.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

namespace gtsim {

namespace {

void within(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("engine input is out of range: ") + what);
}

bool rate(std::int64_t q16) { return q16 >= 0 && q16 <= kMostQ16; }
bool duration(Tick ticks) { return ticks >= 0 && ticks <= kLongest; }
bool near_zero(std::int64_t elements) { return elements >= -kMostElements && elements <= kMostElements; }

void check_machine(const Machine& m) {
  within(rate(m.l2_q16) && rate(m.l2_write_q16) && rate(m.dram_q16) && rate(m.dram_turn_q16), "ticks a byte");
  within(duration(m.l2_near) && duration(m.l2_far) && duration(m.dram_latency), "latencies of L2 and DRAM");
  within(duration(m.kernel_launch) && duration(m.cta_gap) && duration(m.cta_dispatch) && duration(m.grid_wait) && duration(m.grid_sync), "launch times");
  within(rate(m.network.link_q16) && rate(m.network_in_q16) && duration(m.network.transit) && duration(m.network.hop), "network");
  within(duration(m.dram.activate) && duration(m.dram.precharge) && duration(m.dram.row_cycle), "dram timing");
  within(std::all_of(m.place_free.begin(), m.place_free.end(), duration), "place_free");
  within(m.l2_capacity >= 0 && m.l2_capacity <= std::int64_t{1} << 50, "l2_capacity");
  for (const std::int64_t lines : m.pool_lines) within(lines >= 0 && lines <= std::int64_t{1} << 50, "pool_lines");
}

void check_tensor(const Tensor& t) {
  within(t.element_bits <= 1024, "element_bits");
  within(t.base >= 0 && t.base <= std::int64_t{1} << 60, "tensor base");
  double last = static_cast<double>(t.base);  // address of the last byte
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    within(t.shape[d] >= 0 && t.shape[d] <= kMostElements, "tensor shape");
    within(t.stride_bytes[d] >= 0 && t.stride_bytes[d] <= std::int64_t{1} << 60, "tensor strides");
    last += static_cast<double>(t.shape[d]) * static_cast<double>(t.stride_bytes[d]);
  }
  within(last < 0x1p61, "a tensor lies beyond the last address");
}

// Ticks that `bytes` take between two SMs as far apart as can be, a request before them, if nothing overlaps.
double way(const Machine& m, double bytes) {
  const double hops = m.network.mesh ? 2.0 * m.sms : 0, times = static_cast<double>(m.network.link_q16) / 65536.0;
  return 2 * (static_cast<double>(m.network.transit) + (hops + 1) * static_cast<double>(m.network.hop)) + hops * bytes * times;
}

using Extent = std::array<double, 8>;

// What moving a tile may come to, at the most.
struct Size {
  double lines = 0, bytes = 0, sector_bytes = 0, blocks = 1, footprint = 0;
};

// A box with these extents of `t`, which lies anywhere; its rows are cut into `parts`.
Size box(const Machine& m, const Tensor& t, const Extent& extent, double parts) {
  const auto last = static_cast<std::size_t>(t.rank - 1);
  const double element = std::max(t.element_bits / 8.0, 1.0);
  const bool dense = t.stride_bytes[last] == std::max(t.element_bits / 8, 1);
  double rows = dense ? 1 : extent[last];
  for (std::size_t d = 0; d < last; ++d) rows *= extent[d];
  const double row = dense ? extent[last] * element : element;
  Size size;
  size.lines = rows * (row / m.line_bytes + 2 * parts);
  size.bytes = rows * row;
  size.sector_bytes = rows * (row + 2 * m.sector_bytes * parts);
  return size;
}

Size size_of(const Program& p, const Template& t, std::size_t tile) {
  const Machine& m = p.machine;
  const Tensor& tensor = p.tensors[static_cast<std::size_t>(t.tile_buffer[tile])];
  Extent extent{}, block{};
  const auto last = static_cast<std::size_t>(tensor.rank - 1);
  double blocks = 1, elements = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(tensor.rank); ++d) {
    const double whole = static_cast<double>(tensor.shape[d]), unit = std::min(static_cast<double>(tensor.block[d]), whole);
    extent[d] = std::clamp(static_cast<double>(t.tile_extent[tile * static_cast<std::size_t>(t.rank) + d]), 0.0, whole);
    block[d] = unit;
    blocks *= unit > 0 ? extent[d] / unit + 2 : 1;
    elements *= unit;
  }
  constexpr double kInt = std::numeric_limits<std::int32_t>::max();
  const Size one = box(m, tensor, block, 1);
  within(m.by_line || (one.lines < kInt && one.sector_bytes < kInt && one.bytes < kInt / 2), "a block of the L2 has too many bytes");
  Size size = box(m, tensor, extent, m.by_line || block[last] == 0 ? 1 : extent[last] / block[last] + 2);
  size.blocks = m.by_line ? size.lines : blocks;
  size.footprint = m.by_line ? size.sector_bytes : blocks * elements * std::max(tensor.element_bits / 8.0, 1.0);
  if (size.blocks > kMostRequests) throw std::runtime_error("a tile takes more memory requests than the engine can number");
  return size;
}

// Ticks that one access takes if nothing overlaps.
double cost(const Program& p, const MemoryAccess& a, const Size& s) {
  const Machine& m = p.machine;
  const auto times = [](double amount, std::int64_t q16) { return amount * static_cast<double>(q16) / 65536.0; };
  const double requests = s.lines + s.bytes / a.request_bytes;
  const double wire = std::max(requests * a.write_bytes, s.sector_bytes), copies = 1 + std::popcount(a.receivers);
  const double at_once = m.by_line ? std::max(1.0, static_cast<double>(m.pool_lines[static_cast<std::size_t>(a.pool)])) : 1.0;
  const double row = static_cast<double>(m.dram.activate) + static_cast<double>(m.dram.precharge) + static_cast<double>(m.dram.row_cycle);
  const double latency = static_cast<double>(m.l2_near) + static_cast<double>(m.l2_far) + static_cast<double>(m.dram_latency) + row;
  const double slices = m.l2_config.slices, channels = m.dram.channels;  // all in one of them: it has its share of the rate
  within(requests * std::max(a.write_bytes, 1) < 0x1p62, "bytes of a store");
  return static_cast<double>(a.launch + a.fetch) + latency * (s.blocks / at_once + 1) + times(requests, a.front_q16) +
         copies * (times(wire, a.port_q16) + times(s.bytes, a.sink_q16)) + slices * (times(wire, m.l2_q16) + 2 * times(wire, m.l2_write_q16)) +
         2 * channels * times(s.footprint + s.bytes, m.dram_q16 + m.dram_turn_q16) + 2 * row * s.blocks +
         (copies - 1) * (way(m, s.sector_bytes) + times(s.sector_bytes, m.network_in_q16));
}

double cost(const Program& p, const Template& t, std::size_t node) {
  const Demand& demand = t.info[node].demand;
  double total = demand.signal == GridSignal::kNone ? 0 : static_cast<double>(p.machine.grid_wait + p.machine.grid_sync);
  for (std::int32_t s = demand.stage_begin; s < demand.stage_end; ++s) {
    const Stage& stage = p.stages[static_cast<std::size_t>(s)];
    total += static_cast<double>(stage.latency);
    for (const std::span<const Use> uses : {stage.uses, stage.remote})
      for (const Use& use : uses) total += static_cast<double>(use.piece) * (stage.subops - 1) + static_cast<double>(use.last);
    if (stage.message >= 0) total += way(p.machine, static_cast<double>(p.messages[static_cast<std::size_t>(stage.message)].last) * stage.subops);
    if (stage.kind != StageKind::kMemory) continue;
    const MemoryAccess& access = p.memory[static_cast<std::size_t>(stage.memory)];
    total += cost(p, access, size_of(p, t, static_cast<std::size_t>(t.tile_ptr[node] + access.tile)));
  }
  return total;
}

// Cost of a template's nodes: of those outside of repeats, then of one run of each repeat.
std::vector<double> costs(const Program& p, const Template& t) {
  std::vector<double> out(t.repeats.size() + 1, 0.0);
  for (std::size_t node = 0; node < t.info.size(); ++node) out[static_cast<std::size_t>(t.info[node].repeat + 1)] += cost(p, t, node);
  return out;
}

}  // namespace

void check_limits(const Program& p) {
  check_machine(p.machine);
  within(p.tensors.size() < std::size_t{1} << 16, "number of tensors");
  for (const Tensor& t : p.tensors) check_tensor(t);
  for (const Use& use : p.uses) within(duration(use.last), "use_ticks");
  for (const Stage& s : p.stages) within(duration(s.latency), "stage latency");
  for (const Message& s : p.messages) within(s.last <= kMostElements, "bytes of a message");
  for (const MemoryAccess& a : p.memory)
    within(rate(a.front_q16) && rate(a.port_q16) && rate(a.sink_q16) && duration(a.launch) && duration(a.fetch), "memory access");
  std::vector<std::vector<double>> work;
  for (const Template& t : p.templates) {
    within(std::all_of(t.tile_offset.begin(), t.tile_offset.end(), near_zero), "tile_offset");
    within(std::all_of(t.tile_step.begin(), t.tile_step.end(), [](std::int64_t s) { return std::abs(s) <= kMostElements >> 4; }), "tile_step");
    work.push_back(costs(p, t));
  }
  const Machine& m = p.machine;
  const double gap = static_cast<double>(m.cta_gap) + static_cast<double>(m.cta_dispatch) * m.cluster_size;
  double total = static_cast<double>(m.kernel_launch) + static_cast<double>(m.grid_wait);
  if (!m.place_free.empty()) total += static_cast<double>(*std::max_element(m.place_free.begin(), m.place_free.end()));
  for (std::size_t i = 0; i < p.instance_template.size(); ++i) {
    const auto at = static_cast<std::size_t>(p.instance_template[i]);
    const Template& t = p.templates[at];
    double nodes = t.nodes, eager = 0, waits = static_cast<double>(t.each.size());
    total += gap + work[at][0];
    for (std::size_t r = 0; r < t.repeats.size(); ++r) {
      const Repeat& repeat = t.repeats[r];
      const auto width = static_cast<std::size_t>(p.columns_width);
      const std::int64_t times = repeat.times + (repeat.column >= 0 ? p.columns[i * width + static_cast<std::size_t>(repeat.column)] : 0);
      nodes += static_cast<double>(times - 1) * repeat.nodes;
      if (repeat.eager) eager += static_cast<double>(times) * repeat.nodes;
      waits *= static_cast<double>(times);
      total += static_cast<double>(times) * work[at][r + 1];
    }
    if (nodes > static_cast<double>(kMaxNodes) || eager > kMostEager) throw std::runtime_error("a CTA executes more operations than the engine can number");
    within(waits < std::numeric_limits<std::int32_t>::max(), "too many edges into one node");
  }
  // Were nothing to overlap it would take this long; it is what the sums of the engine are bounded by.
  if (total >= static_cast<double>(kLongest)) throw std::runtime_error("the run would take longer than 2^46 cycles");
}

}  // namespace gtsim
