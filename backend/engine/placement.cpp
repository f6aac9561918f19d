// Which free SMs of a GPC a cluster gets.
#include <algorithm>
#include <utility>

#include "clusters.hpp"

namespace gtsim {

namespace {

// The next of a fixed sequence of well-mixed numbers (splitmix64).
std::uint64_t mixed(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

ClusterPlacement::ClusterPlacement(const Machine& machine)
    : machine_(machine),
      free_(static_cast<std::size_t>(machine.sms), machine.ctas_per_sm == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << machine.ctas_per_sm) - 1) {
  std::int32_t begin = 0;
  for (const std::int32_t end : machine.gpc_end) {
    room_.push_back((end - begin) * machine.ctas_per_sm);
    std::vector<std::int32_t> order;
    if (machine.network.placement == Placement::kTopology) {
      order = Noc(machine.network, begin, end - begin).compact_order();
    } else {
      for (std::int32_t sm = begin; sm < end; ++sm) order.push_back(sm);
    }
    if (machine.network.placement == Placement::kNaive) {
      std::uint64_t state = order_.size();
      for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[mixed(state) % (i + 1)]);
    }
    order_.push_back(std::move(order));
    begin = end;
  }
}

Place ClusterPlacement::take_from(std::int32_t sm) {
  std::uint64_t& slots = free_[static_cast<std::size_t>(sm)];
  const std::int32_t slot = std::countr_zero(slots);
  slots &= slots - 1;
  return {sm, slot};
}

bool ClusterPlacement::take(std::vector<Place>& out) {
  std::size_t gpc = 0;
  for (std::size_t g = 1; g < room_.size(); ++g)
    if (room_[g] > room_[gpc]) gpc = g;
  if (room_[gpc] < machine_.cluster_size) return false;
  room_[gpc] -= machine_.cluster_size;
  out.clear();
  if (machine_.network.placement == Placement::kTopology && take_close(gpc, out)) return true;
  for (std::int32_t rank = 0; rank < machine_.cluster_size; ++rank) {
    std::int32_t best = order_[gpc].front();
    for (const std::int32_t sm : order_[gpc])
      if (free(sm) > free(best)) best = sm;
    out.push_back(take_from(best));
  }
  return true;
}

// Among the SMs with most free places, as many as are needed at least: the stretch of the order with the fewest others in
// between, the first of those. On a GPC without gaps clusters so lie one behind the other. False if there are fewer SMs than CTAs.
bool ClusterPlacement::take_close(std::size_t gpc, std::vector<Place>& out) {
  const auto size = static_cast<std::size_t>(machine_.cluster_size);
  const std::vector<std::int32_t>& order = order_[gpc];
  for (int least = machine_.ctas_per_sm; least > 0; --least) {
    scratch_.clear();  // where in the order
    for (std::size_t i = 0; i < order.size(); ++i)
      if (free(order[i]) >= least) scratch_.push_back(i);
    if (scratch_.size() < size) continue;
    std::size_t best = 0;
    for (std::size_t i = 1; i + size <= scratch_.size(); ++i)
      if (scratch_[i + size - 1] - scratch_[i] < scratch_[best + size - 1] - scratch_[best]) best = i;
    for (std::size_t i = best; i < best + size; ++i) out.push_back(take_from(order[scratch_[i]]));
    return true;
  }
  return false;
}

}  // namespace gtsim
