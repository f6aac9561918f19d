// Issue slots and pipes of an SM: which warp goes next, and the pieces of asynchronous work.
#include <algorithm>

#include "engine.hpp"

namespace gtsim {

void Engine::schedule_issue(std::int32_t sm, Tick when) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  if (when < core.next_issue) {
    core.next_issue = when;
    queue_.push(when, kIssue, sm, 0, 0);
  }
}

// When all resources that gate `stage` are free, and which of them is free last.
Tick Engine::earliest(std::int32_t sm, const Stage& stage, std::int32_t* blocked_on) {
  Tick latest = 0;
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick free = servers_.free_at(use, sm);
    if (use.gates && free > latest) {
      latest = free;
      *blocked_on = use.resource;
    }
  }
  return latest;
}

// One piece of a warp stage takes its pipes from `now` on and queues at what the SM shares; returns how long it takes.
Tick Engine::occupy(std::int32_t sm, Slot& slot, std::int32_t node, const Stage& stage, Tick now) {
  const bool last = ++slot.nodes[static_cast<std::size_t>(node)].subop == stage.subops;
  Tick longest = 0;
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick work = last ? use.last : use.piece;
    longest = std::max(longest, servers_.reserve(use, sm, now, work) + work - now);
  }
  if (stage.remote_end > stage.uses_end) longest = std::max(longest, reserve_remote(stage, slot, last, now) - now);
  return longest;
}

// Give issue slots to candidates in the order of the policy, as long as one can start now.
void Engine::arbitrate(std::int32_t sm, Tick now) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  for (;;) {
    Tick next = kNever;
    std::size_t best = core.candidates.size();
    std::uint64_t best_rank = ~std::uint64_t{0};
    for (std::size_t i = 0; i < core.candidates.size(); ++i) {
      Candidate& c = core.candidates[i];
      if (c.since > now) {
        next = std::min(next, c.since);
        continue;
      }
      const Slot& slot = core.slots[static_cast<std::size_t>(c.slot)];
      const Tick free = earliest(sm, stage_of(slot, c.node), &c.blocked_on);
      if (free > now) {
        next = std::min(next, free);
        continue;
      }
      std::uint64_t rank = c.age + 1;
      if (machine_.policy == 0 && c.age == core.last_age) rank = 0;                // greedy: the one served last
      if (machine_.policy == 1) rank = c.age > core.last_age ? c.age - core.last_age : c.age + (std::uint64_t{1} << 63);
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best == core.candidates.size()) {
      if (next != kNever) schedule_issue(sm, next);
      return;
    }
    Candidate& c = core.candidates[best];
    Slot& slot = core.slots[static_cast<std::size_t>(c.slot)];
    const auto n = static_cast<std::size_t>(c.node);
    const Stage& stage = stage_of(slot, c.node);
    if (slot.nodes[n].begun == kNever) slot.nodes[n].begun = now;
    if (c.blocked_on >= 0) servers_.add_queued(c.blocked_on, now - c.since);
    const Tick longest = occupy(sm, slot, c.node, stage, now);
    core.last_age = c.age;
    if (slot.nodes[n].subop == stage.subops) {
      const Candidate done = c;
      core.candidates.erase(core.candidates.begin() + static_cast<std::ptrdiff_t>(best));
      warp_work(sm, done.slot, done.node, now, now + longest);
    } else {
      c.since = now + longest;
      c.blocked_on = -1;
    }
  }
}

// One piece of an asynchronous stage. The unit (the first resource) starts when it is free; operands stream through the
// other resources meanwhile, and the piece ends with the slowest. The next piece queues when this one starts, so its
// operands are fetched in the shadow of the current one.
void Engine::async_piece(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  const Stage& stage = stage_of(slot, node);
  const bool last = ++slot.nodes[n].subop == stage.subops;
  const std::int32_t unit = program_.uses[static_cast<std::size_t>(stage.uses_begin)].resource;
  Tick start = now, end = now;
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    if (use.resource == unit) start = std::max(start, servers_.free_at(use, sm));
  }
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick work = last ? use.last : use.piece;
    if (use.resource == unit) {
      servers_.add_busy(unit, work);
      end = std::max(end, start + work);
    } else {
      end = std::max(end, servers_.reserve(use, sm, now, work) + work);
    }
  }
  if (stage.remote_end > stage.uses_end) end = std::max(end, reserve_remote(stage, slot, last, now));
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    if (use.resource == unit) servers_.free_at(use, sm) = end;
  }
  servers_.add_queued(unit, start - now);
  if (!last) {
    queue_.push(start, kAsync, sm, slot_index, node);
  } else {
    next_stage(sm, slot_index, node, end + stage.latency);
  }
}

}  // namespace gtsim
