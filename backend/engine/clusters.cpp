// Launches with clusters: an instance is a cluster, each of its CTAs has a slot on an SM of its own.
#include <algorithm>

#include "engine.hpp"

namespace gtsim {

// Place clusters in launch order as long as one fits; they start at `when` or, chip-wide, one CTA dispatched after the other.
void Engine::place_clusters(Tick when) {
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  std::vector<Place> places;
  while (next_instance_ < total && placement_.take(places)) {
    std::int32_t id = static_cast<std::int32_t>(clusters_.size());
    if (free_clusters_.empty()) {
      clusters_.emplace_back();
    } else {
      id = free_clusters_.back();
      free_clusters_.pop_back();
    }
    Cluster& cluster = clusters_[static_cast<std::size_t>(id)];
    cluster.places = places;
    cluster.id = id;
    cluster.left = machine_.cluster_size;
    cluster.instance = next_instance_++;
    for (const Place& place : places) sms_[static_cast<std::size_t>(place.sm)].slots[static_cast<std::size_t>(place.slot)].cluster = &cluster;
    dispatched_ = std::max(dispatched_, when) + machine_.cta_dispatch * (machine_.cluster_size - 1);
    queue_.push(dispatched_, kStart, places[0].sm, places[0].slot, cluster.instance);
    dispatched_ += machine_.cta_dispatch;
  }
}

void Engine::start_cluster(Cluster& cluster, Tick now) {
  const auto index = static_cast<std::size_t>(program_.instance_template[static_cast<std::size_t>(cluster.instance)]);
  const Template& t = program_.templates[index];
  cluster.nodes.states = fresh_[index];
  if (!t.repeats.empty()) add_runs(cluster.nodes, t, cluster.instance);
  const std::vector<NodeState>& states = cluster.nodes.states;
  std::vector<std::int32_t> count(cluster.places.size(), 0);
  for (const NodeState& state : states) ++count[static_cast<std::size_t>(t.cta[static_cast<std::size_t>(state.at)])];
  outcome_.instance_start[static_cast<std::size_t>(cluster.instance)] = now;
  for (std::size_t rank = 0; rank < cluster.places.size(); ++rank) {
    const Place place = cluster.places[rank];
    Slot& slot = sms_[static_cast<std::size_t>(place.sm)].slots[static_cast<std::size_t>(place.slot)];
    slot.instance = cluster.instance;
    slot.shape = &t;
    slot.remaining = count[rank];
    slot.start = slot.end = now;
    slot.stats = outcome_.nodes[index].data();
    slot.use(cluster.nodes);
    if (slot.remaining == 0) queue_.push(now, kRetire, place.sm, place.slot, 0);  // this CTA does nothing
  }
  for (std::size_t node = 0; node < states.size(); ++node) {
    const Place place = cluster.places[static_cast<std::size_t>(t.cta[static_cast<std::size_t>(states[node].at)])];
    if (states[node].missing == 0) ready_.push_back({place.sm, place.slot, static_cast<std::int32_t>(node)});
  }
}

// One CTA of a cluster ends: its place is free; the cluster ends with the last of them.
void Engine::retire_member(std::int32_t sm, std::int32_t slot_index, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  Cluster& cluster = *slot.cluster;
  slot.instance = -1;
  slot.cluster = nullptr;
  placement_.give_back({sm, slot_index});
  if (--cluster.left == 0) {
    outcome_.instance_end[static_cast<std::size_t>(cluster.instance)] = now;
    free_clusters_.push_back(cluster.id);
    ++finished_;
    note_retired(now);
  }
  place_clusters(now + machine_.cta_gap);
}

// One piece (the last one?) of the work of `stage` on other SMs; returns when it ends.
Tick Engine::reserve_remote(const Stage& stage, const Slot& slot, bool last, Tick now) {
  Tick end = now;
  for (std::int32_t u = stage.uses_end; u < stage.remote_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick work = last ? use.last : use.piece;
    end = std::max(end, servers_.reserve(use, slot.cluster->places[static_cast<std::size_t>(use.peer)].sm, now, work) + work);
  }
  return end;
}

// Reserve `use` for `work` on the SM of the piece and of every CTA that receives it; returns when the last of them starts.
Tick Engine::reserve_everywhere(const Use& use, const PieceState& state, Tick now, Tick work) {
  const Transfer& transfer = transfers_[static_cast<std::size_t>(state.transfer)];
  const Slot& slot = sms_[static_cast<std::size_t>(transfer.sm)].slots[static_cast<std::size_t>(transfer.slot)];
  Tick start = servers_.reserve(use, state.sm, now, work);
  for (std::uint64_t left = state.access->receivers; left != 0; left &= left - 1)
    start = std::max(start, servers_.reserve(use, slot.cluster->places[static_cast<std::size_t>(std::countr_zero(left))].sm, now, work));
  return start;
}

}  // namespace gtsim
