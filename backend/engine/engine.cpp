#include "engine.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace gtsim {

Engine::Engine(const Program& program, std::int32_t observed_sm, std::function<void(double)> poll)
    : program_(program), machine_(program.machine), observed_sm_(observed_sm), poll_(std::move(poll)),
      servers_(program.machine), memory_(program.machine, servers_, outcome_.traffic),
      sms_(static_cast<std::size_t>(program.machine.sms)) {
  for (Sm& sm : sms_) sm.slots.resize(static_cast<std::size_t>(machine_.ctas_per_sm));
  for (const Template& t : program.templates) outcome_.nodes.emplace_back(static_cast<std::size_t>(t.nodes));
  outcome_.instance_start.assign(program.instance_template.size(), 0);
  outcome_.instance_end.assign(program.instance_template.size(), 0);
}

Outcome Engine::run() {
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  Tick when = machine_.kernel_launch;
  for (std::int32_t slot = 0; slot < machine_.ctas_per_sm; ++slot)
    for (std::int32_t sm = 0; sm < machine_.sms && next_instance_ < total; ++sm, when += machine_.cta_dispatch) {
      sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot)].instance = next_instance_;
      queue_.push(when, kStart, sm, slot, next_instance_++);
    }
  constexpr std::int64_t kPollEvery = 1 << 15;
  while (!queue_.empty()) {
    const Event e = queue_.pop();
    if ((++outcome_.events & (kPollEvery - 1)) == 0) poll_(static_cast<double>(finished_) / total);
    outcome_.end = std::max(outcome_.end, e.time);
    switch (static_cast<Kind>(e.kind())) {
      case kIssue: {
        Sm& sm = sms_[static_cast<std::size_t>(e.sm())];
        if (sm.next_issue == e.time) {
          sm.next_issue = kNever;
          arbitrate(e.sm(), e.time);
        }
        break;
      }
      case kWarpDone: warp_part_ended(e.sm(), e.a(), e.b(), e.time); break;
      case kAsync: async_piece(e.sm(), e.a(), e.b(), e.time); break;
      case kStageDone: next_stage(e.sm(), e.a(), e.b(), e.time); break;
      case kL2: at_l2(e.a(), e.time); break;
      case kReturn: returned(e.a(), e.time); break;
      case kDeposit: deposit(e.a(), e.time); break;
      case kPieceDone: piece_done(e.a(), e.time); break;
      case kStore: store_piece(e.a(), e.time); break;
      case kStart: start_instance(e.sm(), e.a(), e.b(), e.time); break;
    }
    drain(e.time);
  }
  if (finished_ < total)
    throw std::runtime_error("deadlock: " + std::to_string(total - finished_) + " of " + std::to_string(total) +
                             " CTAs cannot finish");
  outcome_.busy = servers_.busy();
  outcome_.queued = servers_.queued();
  outcome_.busy.push_back(memory_.dram_busy());
  return std::move(outcome_);
}

void Engine::start_instance(std::int32_t sm, std::int32_t slot_index, std::int32_t instance, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const Template& t = program_.templates[static_cast<std::size_t>(program_.instance_template[static_cast<std::size_t>(instance)])];
  slot.instance = instance;
  slot.shape = &t;
  slot.remaining = t.nodes;
  slot.nodes.resize(static_cast<std::size_t>(t.nodes));
  for (std::size_t n = 0; n < slot.nodes.size(); ++n) slot.nodes[n] = {now, kNever, now, t.info[n].in_degree, 0, 0};
  outcome_.instance_start[static_cast<std::size_t>(instance)] = now;
  for (std::int32_t node = 0; node < t.nodes; ++node)
    if (slot.nodes[static_cast<std::size_t>(node)].missing == 0) ready_.push_back({sm, slot_index, node});
}

void Engine::retire(std::int32_t sm, std::int32_t slot_index, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  outcome_.instance_end[static_cast<std::size_t>(slot.instance)] = now;
  slot.instance = -1;
  ++finished_;
  if (next_instance_ < static_cast<std::int32_t>(program_.instance_template.size()))
    queue_.push(now + machine_.cta_gap, kStart, sm, slot_index, next_instance_++);
}

const Stage& Engine::stage_of(const Slot& slot, std::int32_t node) const {
  const auto n = static_cast<std::size_t>(node);
  const Demand& demand = slot.shape->info[n].demand;
  return program_.stages[static_cast<std::size_t>(demand.stage_begin + slot.nodes[n].stage)];
}

NodeStats& Engine::stats(const Slot& slot, std::int32_t node) {
  return outcome_.nodes[static_cast<std::size_t>(slot.shape - program_.templates.data())][static_cast<std::size_t>(node)];
}

// Release edges [from, to) of a CTA's template; destinations without missing edges become ready.
void Engine::release(std::int32_t sm, std::int32_t slot_index, std::int32_t from, std::int32_t to, Tick now) {
  constexpr std::int32_t kProgramOrder = 0;
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const Template& t = *slot.shape;
  for (std::int32_t e = from; e < to; ++e) {
    const auto [dst, reason] = t.edges[static_cast<std::size_t>(e)];
    const auto d = static_cast<std::size_t>(dst);
    if (reason == kProgramOrder) slot.nodes[d].ordered = now;
    if (--slot.nodes[d].missing == 0) {
      if (reason != kProgramOrder) stats(slot, dst).wait[static_cast<std::size_t>(reason)] += now - slot.nodes[d].ordered;
      ready_.push_back({sm, slot_index, dst});
    }
  }
}

void Engine::drain(Tick now) {
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Ready r = ready_[i];
    begin(r.sm, r.slot, r.node, now);
  }
  ready_.clear();
}

void Engine::begin(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  slot.nodes[static_cast<std::size_t>(node)].ordered = now;  // from here on: when it became ready
  const Demand& demand = slot.shape->info[static_cast<std::size_t>(node)].demand;
  if (demand.warp_stages == 0) warp_part_ended(sm, slot_index, node, now);
  if (demand.stage_begin == demand.stage_end) {
    complete(sm, slot_index, node, now);
  } else {
    run_stage(sm, slot_index, node, now);
  }
}

void Engine::run_stage(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  Slot& slot = core.slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  const Stage& stage = stage_of(slot, node);
  slot.nodes[n].subop = 0;
  switch (stage.kind) {
    case StageKind::kWarp: {
      if (stage.uses_begin == stage.uses_end) {
        warp_work_ends(sm, slot_index, node, now, now);
        break;
      }
      // The common case, a short stage on an idle scheduler, needs no arbitration.
      std::int32_t blocked_on = -1;
      if (stage.subops == 1 && core.candidates.empty() && earliest(sm, stage, &blocked_on) <= now) {
        core.last_age = next_age_++;
        warp_work_ends(sm, slot_index, node, now, now + occupy(sm, slot, node, stage, now));
      } else {
        core.candidates.push_back({slot_index, node, now, next_age_++, -1});
        schedule_issue(sm, now);
      }
      break;
    }
    case StageKind::kAsync: async_piece(sm, slot_index, node, now); break;
    case StageKind::kMemory: start_transfer(sm, slot_index, node, now); break;
  }
}

// The work of a warp stage ends at `end`, now or later. Without issue edges nothing happens before its latency is over.
void Engine::warp_work_ends(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now, Tick end) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  const Demand& demand = slot.shape->info[n].demand;
  if (slot.nodes[n].begun == kNever) slot.nodes[n].begun = now;
  const bool last = slot.nodes[n].stage + 1 == demand.warp_stages;
  if (last && slot.shape->info[n].edge_begin < slot.shape->info[n].issue_end) {
    if (end == now) {
      warp_part_ended(sm, slot_index, node, now);
    } else {
      queue_.push(end, kWarpDone, sm, slot_index, node);
    }
    return;
  }
  if (last) count_warp_part(slot, node, end);
  const Tick next = end + stage_of(slot, node).latency;
  if (next == now) {
    next_stage(sm, slot_index, node, now);
  } else {
    queue_.push(next, kStageDone, sm, slot_index, node);
  }
}

void Engine::count_warp_part(Slot& slot, std::int32_t node, Tick end) {
  const auto n = static_cast<std::size_t>(node);
  if (slot.nodes[n].begun == kNever) slot.nodes[n].begun = end;
  slot.nodes[n].done = end;
  NodeStats& s = stats(slot, node);
  s.queue += slot.nodes[n].begun - slot.nodes[n].ordered;
  s.service += end - slot.nodes[n].begun;
  ++s.count;
}

// The last stage that holds the warps is over: they go on.
void Engine::warp_part_ended(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  count_warp_part(slot, node, now);
  release(sm, slot_index, slot.shape->info[n].edge_begin, slot.shape->info[n].issue_end, now);
  if (slot.shape->info[n].demand.warp_stages == 0) return;
  const Tick latency = stage_of(slot, node).latency;
  if (latency == 0) {
    next_stage(sm, slot_index, node, now);
  } else {
    queue_.push(now + latency, kStageDone, sm, slot_index, node);
  }
}

void Engine::next_stage(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  const Demand& demand = slot.shape->info[n].demand;
  if (demand.stage_begin + ++slot.nodes[n].stage < demand.stage_end) {
    run_stage(sm, slot_index, node, now);
  } else {
    complete(sm, slot_index, node, now);
  }
}

void Engine::complete(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const auto n = static_cast<std::size_t>(node);
  stats(slot, node).latency += now - slot.nodes[n].done;
  if (sm == observed_sm_)
    outcome_.spans.push_back({sm, slot.instance, node, slot.nodes[n].ordered, slot.nodes[n].begun == kNever ? slot.nodes[n].ordered : slot.nodes[n].begun,
                              slot.nodes[n].done, now});
  release(sm, slot_index, slot.shape->info[n].issue_end, slot.shape->info[n].edge_end, now);
  if (--slot.remaining == 0) retire(sm, slot_index, now);
}

void Engine::schedule_issue(std::int32_t sm, Tick when) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  if (when < core.next_issue) {
    core.next_issue = when;
    queue_.push(when, kIssue, sm, 0, 0);
  }
}

// When all resources of `stage` are free, and which of them is free last.
Tick Engine::earliest(std::int32_t sm, const Stage& stage, std::int32_t* blocked_on) {
  Tick latest = 0;
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick free = servers_.free_at(use.resource, sm, use.sub);
    if (free > latest) {
      latest = free;
      *blocked_on = use.resource;
    }
  }
  return latest;
}

// One piece of a warp stage takes its resources from `now` on; returns how long the slowest of them works.
Tick Engine::occupy(std::int32_t sm, Slot& slot, std::int32_t node, const Stage& stage, Tick now) {
  const bool last = ++slot.nodes[static_cast<std::size_t>(node)].subop == stage.subops;
  Tick longest = 0;
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick work = last ? use.last : use.piece;
    servers_.free_at(use.resource, sm, use.sub) = now + work;
    servers_.add_busy(use.resource, work);
    longest = std::max(longest, work);
  }
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
      warp_work_ends(sm, done.slot, done.node, now, now + longest);
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
    if (use.resource == unit) start = std::max(start, servers_.free_at(unit, sm, use.sub));
  }
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    const Tick work = last ? use.last : use.piece;
    if (use.resource == unit) {
      servers_.add_busy(unit, work);
      end = std::max(end, start + work);
    } else {
      end = std::max(end, servers_.reserve(use.resource, sm, use.sub, now, work) + work);
    }
  }
  for (std::int32_t u = stage.uses_begin; u < stage.uses_end; ++u) {
    const Use& use = program_.uses[static_cast<std::size_t>(u)];
    if (use.resource == unit) servers_.free_at(unit, sm, use.sub) = end;
  }
  servers_.add_queued(unit, start - now);
  if (!last) {
    queue_.push(start, kAsync, sm, slot_index, node);
  } else {
    queue_.push(end + stage.latency, kStageDone, sm, slot_index, node);
  }
}

}  // namespace gtsim
