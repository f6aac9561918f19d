// Where the CTAs of clusters are: all of one cluster within one GPC (placement.cpp).
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "noc.hpp"
#include "program.hpp"

namespace gtsim {

// A place for one CTA.
struct Place {
  std::int32_t sm, slot;
};

// Free places, and which of them the next cluster takes: the GPC with most free places, there the SMs with most of them. Of
// equals, those that `cluster.placement` says.
class ClusterPlacement {
 public:
  explicit ClusterPlacement(const Machine& machine);

  // Take places for one cluster, one a rank, into `out`; false if no GPC has enough.
  bool take(std::vector<Place>& out);

  void give_back(const Place& place) {
    free_[static_cast<std::size_t>(place.sm)] |= std::uint64_t{1} << place.slot;
    std::size_t gpc = 0;
    while (machine_.gpc_end[gpc] <= place.sm) ++gpc;
    ++room_[gpc];
  }

 private:
  int free(std::int32_t sm) const { return std::popcount(free_[static_cast<std::size_t>(sm)]); }
  Place take_from(std::int32_t sm);
  bool take_close(std::size_t gpc, std::vector<Place>& out);

  const Machine& machine_;
  std::vector<std::uint64_t> free_;  // [SMs] a bit a free slot
  std::vector<std::int32_t> room_;   // [GPCs] free slots
  std::vector<std::vector<std::int32_t>> order_;  // [GPCs] its SMs, the first of equals first
  std::vector<std::size_t> scratch_;
};

}  // namespace gtsim
