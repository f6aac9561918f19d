// The part of the engine's input that describes the machine.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "input.hpp"
#include "limits.hpp"
#include "program.hpp"
#include "servers.hpp"

namespace gtsim {

inline Use use_of(std::int32_t resource, std::int32_t sub, Tick ticks, const Machine& machine) {
  Use use{resource, 0, nullptr, false, 1, -1, ticks, ticks};
  if (resource >= 0) Servers::place(use, machine, sub);
  return use;
}

// Join uses in [begin, end) of sub-partitions next to each other that take the same work; returns how many uses remain.
inline std::size_t join(std::vector<Use>& uses, std::size_t begin, std::size_t end) {
  std::size_t last = begin;
  for (std::size_t u = begin; u < end; ++u) {
    Use& into = uses[last > begin ? last - 1 : last];
    const Use& use = uses[u];
    if (last > begin && use.gates && into.resource == use.resource && into.server + into.width == use.server && into.piece == use.piece &&
        into.last == use.last) {
      ++into.width;
    } else {
      uses[last++] = use;
    }
  }
  return last - begin;
}

// The slices of the L2 and the DRAM behind them.
inline void memory_of(const nb::dict& d, Machine& m) {
  L2Config& l2 = m.l2_config;
  l2.slices = small(d, "l2_slices", 1, kMostParts);
  l2.partitions = small(d, "l2_partitions", 1, 32);
  l2.mshr_per_slice = small(d, "l2_mshr_per_slice", 1, kMostIndex);
  l2.coalescer_sms = small(d, "l2_coalescer_sms", 1, 64);
  l2.folded_hash = integer(d, "l2_folded_hash") != 0;
  l2.remote_copy = integer(d, "l2_remote_copy") != 0;
  l2.warm = integer(d, "l2_warm") != 0;
  l2.side = vec<std::int32_t>(d, "l2_side");
  require(l2.slices % l2.partitions == 0, "l2_partitions");
  require(l2.side.size() == static_cast<std::size_t>(m.sms), "l2_side");
  in_range(l2.side, 0, l2.partitions, "l2_side");
  DramConfig& dram = m.dram;
  dram.channels = small(d, "dram_channels", 1, kMostParts);
  dram.banks = small(d, "dram_banks", 1, kMostParts);
  dram.row_lines = small(d, "dram_row_lines", 1, kMostIndex);
  dram.activate = integer(d, "dram_activate");
  dram.precharge = integer(d, "dram_precharge");
  dram.row_cycle = integer(d, "dram_row_cycle");
  require(dram.channels % (l2.slices / l2.partitions) == 0, "dram_channels");
}

inline Machine machine_of(const nb::dict& d) {
  Machine m{};
  m.sms = small(d, "sms", 1, 4095);
  m.subpartitions = small(d, "subpartitions", 1, 64);
  m.cluster_size = small(d, "cluster_size", 1, 64);
  m.gpc_end = vec<std::int32_t>(d, "gpc_end");
  m.ctas_per_sm = small(d, "ctas_per_sm", 1, 64);
  m.line_bytes = small(d, "line_bytes", 1, kMostBytes);
  m.sector_bytes = small(d, "sector_bytes", 1, kMostBytes);
  require(m.line_bytes % m.sector_bytes == 0, "a line must be a whole number of sectors");
  for (const std::int32_t s : vec<std::int32_t>(d, "scopes")) {
    require(s >= 0 && s <= 4, "scopes");
    m.scopes.push_back(static_cast<Scope>(s));
  }
  m.l2_q16 = integer(d, "l2_q16");
  m.l2_write_q16 = integer(d, "l2_write_q16");
  m.dram_q16 = integer(d, "dram_q16");
  m.dram_turn_q16 = integer(d, "dram_turn_q16");
  m.l2_capacity = integer(d, "l2_capacity");
  m.l2_foreign = integer(d, "l2_foreign");
  require(m.l2_foreign >= 0 && m.l2_foreign <= m.l2_capacity, "l2_foreign");
  m.l2_near = integer(d, "l2_near");
  m.l2_far = integer(d, "l2_far");
  m.dram_latency = integer(d, "dram_latency");
  memory_of(d, m);
  const auto pools = vec<std::int64_t>(d, "pool_lines");
  require(pools.size() == kPools, "pool_lines");
  std::copy(pools.begin(), pools.end(), m.pool_lines.begin());
  m.kernel_launch = integer(d, "kernel_launch");
  m.cta_gap = integer(d, "cta_gap");
  m.cta_dispatch = integer(d, "cta_dispatch");
  m.grid_wait = integer(d, "grid_wait");
  m.grid_sync = integer(d, "grid_sync");
  m.first_touch_entries = small(d, "first_touch_entries", 1, kMostIndex);
  m.place_free = vec<std::int64_t>(d, "place_free");
  m.policy = small(d, "policy", 0, 2);
  m.by_line = integer(d, "by_line") != 0;
  m.chunk_lines = small(d, "chunk_lines", 1, kMostBytes);
  m.sequence_period = small(d, "sequence_period", 0, kMostIndex);
  m.steady_ctas = small(d, "steady_ctas", 0, kMostIndex);
  m.steady_spread_ppm = integer(d, "steady_spread_ppm");
  m.steady_drift_ppm = integer(d, "steady_drift_ppm");
  constexpr std::int64_t kMillion = 1000000;
  require(m.steady_spread_ppm >= 0 && m.steady_spread_ppm <= kMillion && m.steady_drift_ppm >= 0 && m.steady_drift_ppm <= kMillion,
          "steady state");
  m.store_chunk_lines = small(d, "store_chunk_lines", 1, kMostBytes);
  for (std::size_t g = 0; g < m.gpc_end.size(); ++g) require(m.gpc_end[g] > (g == 0 ? 0 : m.gpc_end[g - 1]), "gpc_end");
  require(!m.gpc_end.empty() && m.gpc_end.back() == m.sms, "gpc_end");
  require(m.scopes.size() <= 256, "more resources than the engine can number");
  Servers::number(m);
  require(m.line_bytes / m.sector_bytes <= 4, "more than four sectors a line");
  require(m.place_free.empty() || m.place_free.size() == static_cast<std::size_t>(m.sms) * static_cast<std::size_t>(m.ctas_per_sm),
          "place_free");
  m.network.mesh = integer(d, "network_mesh") != 0;
  m.network.columns = small(d, "network_columns", 1, kMostIndex);
  m.network.transit = integer(d, "network_transit");
  m.network.hop = integer(d, "network_hop");
  m.network.link_q16 = integer(d, "network_link_q16");
  m.network.line_bytes = m.line_bytes;
  const std::int64_t placement = integer(d, "network_placement");
  require(placement >= 0 && placement <= 2, "network_placement");
  m.network.placement = static_cast<Placement>(placement);
  const std::int64_t in = integer(d, "network_in_resource");
  require(in >= -1 &&
              in < static_cast<std::int64_t>(m.scopes.size()) && (in < 0 || m.scopes[static_cast<std::size_t>(in)] == Scope::kSm) &&
              (in >= 0 || !m.network.mesh),
          "network");
  m.network_in = use_of(static_cast<std::int32_t>(in), -1, 0, m);
  m.network_in_q16 = integer(d, "network_in_q16");
  const auto chip = [&](const char* name) {
    const auto r = static_cast<std::int32_t>(integer(d, name));
    require(r >= 0 && r < static_cast<std::int32_t>(m.scopes.size()) && m.scopes[static_cast<std::size_t>(r)] == Scope::kChip, name);
    return use_of(r, -1, 0, m);
  };
  m.l2 = chip("l2_resource");
  m.l2_write = chip("l2_write_resource");
  return m;
}

}  // namespace gtsim
