// Launches with clusters: an instance is a cluster, each of its CTAs has a place on an SM of its own.
#include "clusters.hpp"

#include <algorithm>

#include "engine.hpp"
#include "shard.hpp"

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
    for (const Place& place : places) slot_at(place).cluster = &cluster;
    dispatched_ = std::max(dispatched_, when) + machine_.cta_dispatch * (machine_.cluster_size - 1);
    arrange(dispatched_, Shard::kStart, place_of(places[0]), cluster.instance);
    dispatched_ += machine_.cta_dispatch;
  }
  chip_.more = next_instance_ < total;
}

// One CTA of a cluster has ended: its place is free; the cluster ends with the last of them.
void Engine::member_ended(Slot& slot, Tick when) {
  Cluster& cluster = *slot.cluster;
  slot.instance = -1;
  slot.cluster = nullptr;
  placement_.give_back({slot.sm, slot.index});
  if (--cluster.left == 0) {
    chip_.outcome.instance_end[static_cast<std::size_t>(cluster.instance)] = when;
    free_clusters_.push_back(cluster.id);
    ++finished_;
    note_retired(when);
  }
  place_clusters(when + machine_.cta_gap);
}

void Shard::start_cluster(Cluster& cluster) {
  const std::int32_t shape_index = chip_.program.instance_template[static_cast<std::size_t>(cluster.instance)];
  const Template& t = chip_.program.templates[static_cast<std::size_t>(shape_index)];
  cluster.nodes.start(t, chip_.fresh[static_cast<std::size_t>(shape_index)],
                      chip_.program.columns.data() + static_cast<std::ptrdiff_t>(cluster.instance) * chip_.program.columns_width);
  std::vector<std::int64_t> count(cluster.places.size(), 0);
  for (std::size_t node = 0; node < t.info.size(); ++node) {
    const std::int32_t repeat = t.info[node].repeat;
    count[static_cast<std::size_t>(t.cta[node])] += repeat < 0 ? 1 : cluster.nodes.times(repeat);
  }
  chip_.outcome.instance_start[static_cast<std::size_t>(cluster.instance)] = now_;
  for (std::size_t rank = 0; rank < cluster.places.size(); ++rank) {
    Slot& slot = slot_at(cluster.places[rank]);
    slot.instance = cluster.instance;
    slot.shape = &t;
    slot.shape_index = shape_index;
    slot.remaining = count[rank];
    slot.start = slot.end = now_;
    slot.grid_syncs = 0;
    slot.nodes = &cluster.nodes;
    if (slot.remaining == 0) retire(slot, now_);  // this CTA does nothing
  }
  begin_first(slot_at(cluster.places[0]));
}

// One piece (the last one?) of the work of `stage` on other SMs; returns when it ends.
Tick Shard::reserve_remote(const Stage& stage, const Slot& slot, bool last, Tick now) {
  Tick finish = now;
  for (const Use& use : stage.remote) {
    const Tick work = last ? use.last : use.piece;
    finish = std::max(finish, servers.reserve(use, slot.cluster->places[static_cast<std::size_t>(use.peer)].sm, now, work) + work);
  }
  return finish;
}

// Reserve `use` for `work` on the SM of the piece and of every CTA that receives it; returns when the last of them starts.
Tick Shard::reserve_everywhere(const Use& use, const PieceState& state, Tick now, Tick work) {
  const Slot& slot = slot_at(transfers_[static_cast<std::size_t>(state.transfer)].place);
  Tick start = servers.reserve(use, state.sm, now, work);
  for (std::uint64_t left = state.access->receivers; left != 0; left &= left - 1)
    start = std::max(start, servers.reserve(use, slot.cluster->places[static_cast<std::size_t>(std::countr_zero(left))].sm, now, work));
  return start;
}

}  // namespace gtsim
