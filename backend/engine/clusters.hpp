// Where the CTAs of clusters are: all of one cluster within one GPC.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

// A place for one CTA.
struct Place {
  std::int32_t sm, slot;
};

// Free places, and which of them the next cluster takes: the GPC with most free places, there the SMs with most of them; of
// equals the first.
class ClusterPlacement {
 public:
  explicit ClusterPlacement(const Machine& machine)
      : machine_(machine), free_(static_cast<std::size_t>(machine.sms), machine.ctas_per_sm == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << machine.ctas_per_sm) - 1) {
    std::int32_t begin = 0;
    for (const std::int32_t end : machine.gpc_end) {
      room_.push_back((end - begin) * machine.ctas_per_sm);
      begin = end;
    }
  }

  // Take places for one cluster, one a rank, into `out`; false if no GPC has enough.
  bool take(std::vector<Place>& out) {
    std::size_t gpc = 0;
    for (std::size_t g = 1; g < room_.size(); ++g)
      if (room_[g] > room_[gpc]) gpc = g;
    if (room_[gpc] < machine_.cluster_size) return false;
    room_[gpc] -= machine_.cluster_size;
    out.clear();
    for (std::int32_t rank = 0; rank < machine_.cluster_size; ++rank) {
      std::int32_t best = gpc == 0 ? 0 : machine_.gpc_end[gpc - 1];
      for (std::int32_t sm = best + 1; sm < machine_.gpc_end[gpc]; ++sm)
        if (std::popcount(free_[static_cast<std::size_t>(sm)]) > std::popcount(free_[static_cast<std::size_t>(best)])) best = sm;
      std::uint64_t& slots = free_[static_cast<std::size_t>(best)];
      const std::int32_t slot = std::countr_zero(slots);
      slots &= slots - 1;
      out.push_back({best, slot});
    }
    return true;
  }

  void give_back(const Place& place) {
    free_[static_cast<std::size_t>(place.sm)] |= std::uint64_t{1} << place.slot;
    std::size_t gpc = 0;
    while (machine_.gpc_end[gpc] <= place.sm) ++gpc;
    ++room_[gpc];
  }

 private:
  const Machine& machine_;
  std::vector<std::uint64_t> free_;  // [SMs] a bit a free slot
  std::vector<std::int32_t> room_;   // [GPCs] free slots
};

}  // namespace gtsim
