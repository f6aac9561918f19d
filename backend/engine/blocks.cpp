// The block scheduler: which CTA starts where and when, and barriers of the whole grid.
#include <algorithm>
#include <numeric>

#include "engine.hpp"

namespace gtsim {

// Fill the chip with the first CTAs.
void Engine::launch() {
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  Tick when = machine_.kernel_launch;
  chip_.more = true;
  if (machine_.cluster_size > 1) {
    for (const Tick free : machine_.place_free) when = std::max(when, free);
    return place_clusters(when);
  }
  for (const std::int32_t place : places()) {  // numbered [places, SMs]
    if (next_instance_ == total) break;
    const std::int32_t sm = place % machine_.sms, slot = place / machine_.sms;
    if (!machine_.place_free.empty()) when = std::max(when, machine_.place_free[static_cast<std::size_t>(place)]);
    arrange(when, Shard::kStart, place_of({sm, slot}), next_instance_++);
    when += machine_.cta_dispatch;
  }
}

// Places for CTAs in the order in which they are filled: SM by SM, then the next place on each; those that earlier kernels
// leave first come first.
std::vector<std::int32_t> Engine::places() const {
  std::vector<std::int32_t> order(static_cast<std::size_t>(machine_.sms) * static_cast<std::size_t>(machine_.ctas_per_sm));
  std::iota(order.begin(), order.end(), 0);
  if (!machine_.place_free.empty()) {
    const auto free = [&](std::int32_t place) {
      return std::max(machine_.place_free[static_cast<std::size_t>(place)], machine_.kernel_launch);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return free(a) < free(b); });
  }
  return order;
}

// Have something happen at `when`, but not in what its shard has behind it.
void Engine::arrange(Tick when, Shard::Kind kind, std::int32_t place, std::int32_t index) {
  const std::size_t shard = shard_at(place);
  when = std::max(when, shards_[shard].now());
  shards_[shard].push(when, kind, place, index);
  Tick& next = next_[memory_.size() + shard];
  next = std::min(next, when);
}

// Act on what the shards told, in the order of (time, place). A shard in which a CTA has ended stops where its successor may start
// within the window; what came later elsewhere then has to wait until it has caught up. True if shards have to.
bool Engine::deliver() {
  for (std::size_t s = 0; s < shards_.size(); ++s) {
    if (told_[s] == 0) continue;
    messages_.insert(messages_.end(), shards_[s].messages.begin(), shards_[s].messages.end());
    shards_[s].messages.clear();
    told_[s] = 0;
  }
  if (messages_.empty()) return false;
  std::stable_sort(messages_.begin(), messages_.end(), [](const ChipMessage& a, const ChipMessage& b) {
    return a.when != b.when ? a.when < b.when : a.place < b.place;
  });
  Tick horizon = kNever;  // what may come yet comes later
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (shards_[s].stopped) horizon = std::min(horizon, next_[memory_.size() + s]);
  std::size_t heard = 0;
  for (; heard < messages_.size() && messages_[heard].when <= horizon; ++heard) {
    const ChipMessage m = messages_[heard];
    shards_[shard_at(m.place)].stopped = false;
    m.kind == ChipMessage::kAtGridBarrier ? at_grid_barrier(m) : ended(m);
  }
  messages_.erase(messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(heard));
  for (std::size_t s = 0; s < shards_.size(); ++s)
    if (next_[memory_.size() + s] < until_) return true;
  return false;
}

// A CTA has ended: another takes its place.
void Engine::ended(const ChipMessage& message) {
  if (Slot& slot = slot_at(message.place); slot.cluster != nullptr) return member_ended(slot, message.when);
  ++finished_;
  note_retired(message.when);
  if (next_instance_ < static_cast<std::int32_t>(program_.instance_template.size()))
    arrange(message.when + machine_.cta_gap, Shard::kStart, message.place, next_instance_++);
  chip_.more = next_instance_ < static_cast<std::int32_t>(program_.instance_template.size());
}

// A CTA waits at its next grid barrier; the last one lets all go on.
void Engine::at_grid_barrier(const ChipMessage& message) {
  const auto number = static_cast<std::size_t>(slot_at(message.place).grid_syncs++);
  if (number == grid_barriers_.size()) grid_barriers_.emplace_back();
  std::vector<ChipMessage>& there = grid_barriers_[number];
  there.push_back(message);
  if (there.size() < program_.instance_template.size() * static_cast<std::size_t>(std::max(machine_.cluster_size, 1))) return;
  const Tick go = message.when + machine_.grid_sync;
  for (const ChipMessage& m : there) {
    Slot& slot = slot_at(m.place);
    slot.passing = true;
    const auto at = static_cast<std::size_t>((*slot.nodes)[m.node].at);
    stats_.front()[static_cast<std::size_t>(slot.shape_index)][at].wait[kSynchronisation] += go - m.when;
    arrange(go, Shard::kBegin, m.place, m.node);
  }
}

}  // namespace gtsim
