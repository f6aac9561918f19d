// Issue slots and pipes of an SM: which warp goes next, and the pieces of asynchronous work.
#include <algorithm>

#include "shard.hpp"

namespace gtsim {

void Shard::schedule_issue(std::int32_t sm, Tick when) {
  Sm& here = core(sm);
  if (when < here.next_issue) {
    here.next_issue = when;
    queue_.push(when, Event::pack(kIssue, sm, 0));
  }
}

// When all resources that gate `stage` are free, and which of them is free last.
Tick Shard::earliest(std::int32_t sm, const Stage& stage, std::int32_t* blocked_on) {
  Tick latest = 0;
  for (const Use& use : stage.uses) {
    const Tick free = servers.free_at(use, sm);
    if (use.gates && free > latest) {
      latest = free;
      *blocked_on = use.resource;
    }
  }
  return latest;
}

// One piece of a warp stage takes its pipes from `now` on and queues at what the SM shares; returns how long it takes.
Tick Shard::occupy(Slot& slot, NodeState& state, const Stage& stage, Tick now) {
  const bool last = ++state.subop == stage.subops;
  Tick longest = 0;
  for (const Use& use : stage.uses) {
    const Tick work = last ? use.last : use.piece;
    longest = std::max(longest, servers.reserve(use, slot.sm, now, work) + work - now);
  }
  if (!stage.remote.empty()) longest = std::max(longest, reserve_remote(stage, slot, last, now) - now);
  return longest;
}

// Give issue slots to candidates in the order of the policy, as long as one can start now.
void Shard::arbitrate(std::int32_t sm, Tick now) {
  Sm& here = core(sm);
  for (;;) {
    Tick next = kNever;
    std::size_t best = here.candidates.size();
    std::uint64_t best_rank = ~std::uint64_t{0};
    for (std::size_t i = 0; i < here.candidates.size(); ++i) {
      Candidate& c = here.candidates[i];
      if (c.since > now) {
        next = std::min(next, c.since);
        continue;
      }
      const Tick free = earliest(sm, *c.stage, &c.blocked_on);
      if (free > now) {
        next = std::min(next, free);
        continue;
      }
      std::uint64_t rank = c.age + 1;
      if (chip_.machine.policy == 0 && c.age == here.last_age) rank = 0;                // greedy: the one served last
      if (chip_.machine.policy == 1) rank = c.age > here.last_age ? c.age - here.last_age : c.age + (std::uint64_t{1} << 63);
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best == here.candidates.size()) {
      if (next == kNever) return;
      if (!undisturbed(next)) return schedule_issue(sm, next);
      now = now_ = next;
      continue;
    }
    Candidate& c = here.candidates[best];
    Slot& slot = slot_at(c.place);
    NodeState& state = (*slot.nodes)[c.node];
    const Stage& stage = *c.stage;
    if (state.when == kNever) state.when = now;
    if (c.blocked_on >= 0) servers.add_queued(c.blocked_on, now - c.since);
    const Tick longest = occupy(slot, state, stage, now);
    here.last_age = c.age;
    if (state.subop == stage.subops) {
      const Candidate done = c;
      here.candidates.erase(here.candidates.begin() + static_cast<std::ptrdiff_t>(best));
      const NodeInfo& info = info_of(slot, state);
      if (info.demand.simple) {
        finish_simple(slot, done.node, info, now, now + longest);
      } else {
        warp_work(slot, done.node, now, now + longest);
      }
    } else {
      c.since = now + longest;
      c.blocked_on = -1;
    }
  }
}

// An asynchronous stage begins, unless an earlier one of its queue still has pieces to place.
void Shard::async_begin(Slot& slot, std::int32_t node, Tick now) {
  const Stage& stage = stage_of(slot, (*slot.nodes)[node]);
  if (stage.queue >= 0) {
    auto at = std::find_if(slot.queues.begin(), slot.queues.end(), [&](const Slot::Queue& q) { return q.queue == stage.queue; });
    if (at == slot.queues.end()) at = slot.queues.insert(at, {stage.queue, {}});
    at->nodes.push_back(node);
    if (at->nodes.size() > 1) return;
  }
  async_piece(slot, node, now);
}

// One piece of an asynchronous stage. The unit (the first resource) starts when it is free; operands stream through the
// other resources meanwhile, and the piece ends with the slowest. The next piece queues when this one starts, so its
// operands are fetched in the shadow of the current one.
void Shard::async_piece(Slot& slot, std::int32_t node, Tick now) {
  NodeState& state = (*slot.nodes)[node];
  const Stage& stage = stage_of(slot, state);
  const std::int32_t sm = slot.sm;
  const bool last = ++state.subop == stage.subops;
  const std::int32_t unit = stage.uses.front().resource;
  Tick start = now, finish = now;
  for (const Use& use : stage.uses) {
    if (use.resource == unit) start = std::max(start, servers.free_at(use, sm));
  }
  for (const Use& use : stage.uses) {
    const Tick work = last ? use.last : use.piece;
    if (use.resource == unit) {
      servers.add_busy(unit, work * use.width);
      finish = std::max(finish, start + work);
    } else {
      finish = std::max(finish, servers.reserve(use, sm, now, work) + work);
    }
  }
  if (!stage.remote.empty()) finish = std::max(finish, reserve_remote(stage, slot, last, now));
  for (const Use& use : stage.uses) {
    if (use.resource == unit) servers.set_free(use, sm, finish);
  }
  servers.add_queued(unit, start - now);
  if (!last) {
    queue_.push(start, Event::pack(kAsync, place_of(slot), node));
  } else {
    if (stage.queue >= 0) {
      auto& nodes = std::find_if(slot.queues.begin(), slot.queues.end(), [&](const Slot::Queue& q) { return q.queue == stage.queue; })->nodes;
      nodes.pop_front();
      if (!nodes.empty()) queue_.push(start, Event::pack(kAsync, place_of(slot), nodes.front()));
    }
    next_stage(slot, node, finish + latency_of(stage, slot));
  }
}

}  // namespace gtsim
