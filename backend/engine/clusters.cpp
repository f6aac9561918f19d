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

// One piece (the last one?) of the work of `stage` on other SMs, and its way there; returns when it ends.
Tick Shard::reserve_remote(const Stage& stage, const Slot& slot, bool last, Tick now) {
  const Message* message = stage.message < 0 ? nullptr : &chip_.program.messages[static_cast<std::size_t>(stage.message)];
  const std::int32_t port = message == nullptr ? -1 : message->port;
  Tick finish = now, entered = now;
  if (port >= 0 && !message->fetch)  // the data leaves by a port that was taken just now
    for (const Use& use : stage.uses)
      if (use.resource == port) entered = std::max(now, servers.free_at(use, slot.sm) - (last ? use.last : use.piece));
  for (const Use& use : stage.remote) {
    const Tick work = last ? use.last : use.piece;
    const Tick start = servers.reserve(use, slot.cluster->places[static_cast<std::size_t>(use.peer)].sm, now, work);
    if (use.resource == port && message->fetch) entered = start;
    finish = std::max(finish, start + work);
  }
  if (port < 0) return finish;
  const std::int32_t peer = slot.cluster->places[static_cast<std::size_t>(message->peer)].sm;
  const std::int64_t bytes = last ? message->last : message->piece;
  Noc& network = network_of(slot.sm);
  if (message->fetch) network.signal(slot.sm, peer, network.requests_of(bytes));
  return std::max(finish, network.send(message->fetch ? peer : slot.sm, message->fetch ? slot.sm : peer, bytes, entered, now));
}

// The latency of `stage`, with the way of its message in place of that through a crossbar.
Tick Shard::latency_of(const Stage& stage, const Slot& slot) {
  if (stage.message < 0) return stage.latency;
  return std::max<Tick>(stage.latency + detour(chip_.program.messages[static_cast<std::size_t>(stage.message)], slot), 0);
}

// What the way of a message takes more than that through a crossbar; less than nothing if it is a short one.
Tick Shard::detour(const Message& message, const Slot& slot) {
  Noc& network = network_of(slot.sm);
  if (message.peer >= 0) {
    const std::int32_t peer = slot.cluster->places[static_cast<std::size_t>(message.peer)].sm;
    if (message.port < 0) network.signal(slot.sm, peer);
    return (message.fetch ? 2 : 1) * network.detour(slot.sm, peer);
  }
  Tick longest = -kNever;
  for (const Place& place : slot.cluster->places) {
    if (place.sm == slot.sm && place.slot == slot.index) continue;
    network.signal(slot.sm, place.sm);
    longest = std::max(longest, network.detour(slot.sm, place.sm));
  }
  return longest;
}

// A chunk of a piece goes over the mesh to every CTA that receives it; returns when it is there, but for the time of the ways.
Tick Shard::multicast(const PieceState& state, Tick entered) {
  const Slot& slot = slot_at(transfers_[static_cast<std::size_t>(state.transfer)].place);
  const std::int64_t bytes = state.part(state.piece.sector_bytes);
  const Tick work = scaled(bytes, chip_.machine.network_in_q16);
  Noc& network = network_of(state.sm);
  Tick finish = entered;
  bool again = false;
  for (std::uint64_t left = state.access->receivers; left != 0; left &= left - 1) {
    const std::int32_t sm = slot.cluster->places[static_cast<std::size_t>(std::countr_zero(left))].sm;
    finish = std::max(finish, servers.reserve(chip_.machine.network_in, sm, now_, work) + work);
    finish = std::max(finish, again ? network.send_again(state.sm, sm, bytes, entered, now_) : network.send(state.sm, sm, bytes, entered, now_));
    again = true;
  }
  return finish;
}

// The same as `detour` for the receiver of a multicast that is farthest away.
Tick Shard::multicast_detour(const MemoryAccess& access, const Slot& slot) {
  Tick longest = -kNever;
  for (std::uint64_t left = access.receivers; left != 0; left &= left - 1)
    longest = std::max(longest, network_of(slot.sm).detour(slot.sm, slot.cluster->places[static_cast<std::size_t>(std::countr_zero(left))].sm));
  return longest;
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
