#include "shard.hpp"

#include <algorithm>

#include "fetch_ahead.hpp"

namespace gtsim {

Shard::Shard(Chip& chip, std::int32_t first, std::int32_t end_sm)
    : servers(chip.machine, chip.free.data()), chip_(chip), first_(first), end_(end_sm), sms_(static_cast<std::size_t>(end_sm - first)) {
  for (auto& side : outbox) side.resize(chip.route.parts);
  for (const Template& t : chip.program.templates) piece_cache_.emplace_back(t.tile_buffer.size());
}

Tick Shard::run(Tick until, int side, Stats& stats) {
  stats_ = &stats;
  sent_ = &outbox[side];
  until_ = until;
  returns_.settle();
  for (;;) {
    const Tick local = queue_.next(), back = returns_.next();
    if (std::min(local, back) >= until || stopped) break;
    ++events;
    if (back < local || (back == local && returns_.front().sequence < queue_.next_number())) {
      take_return();
    } else {
      const Event e = queue_.pop();
      now_ = e.time;
      handle(e);
    }
    drain();
  }
  Tick first = next();
  for (const Outbox& box : *sent_) first = std::min(first, box.first);
  return first;
}

// The earliest of the pieces that come back has begun to.
void Shard::take_return() {
  constexpr std::size_t kAhead = 6;
  if (const auto* entry = returns_.ahead(kAhead)) fetch_whole(pieces[entry->item]);
  now_ = returns_.next();
  const std::int32_t piece = returns_.front().item;
  returns_.pop();
  returned(piece, now_);
}

void Shard::handle(const Event& e) {
  switch (static_cast<Kind>(e.kind())) {
    case kStart: start_instance(slot_at(e.place()), e.index()); break;
    case kBegin: begin(slot_at(e.place()), e.index(), e.time); break;
    case kStage: run_stage(slot_at(e.place()), e.index(), e.time); break;
    case kIssue: {
      Sm& sm = core(e.place());
      if (sm.next_issue == e.time) {
        sm.next_issue = kNever;
        arbitrate(e.place(), e.time);
      }
      break;
    }
    case kAsync: async_piece(slot_at(e.place()), e.index(), e.time); break;
    case kReturn: returned(e.index(), e.time); break;
    case kPump: pump(e.place(), e.index()); break;
    case kStore: store_chunk(e.index(), e.time); break;
    case kResume: resume(e.place(), e.index()); break;
    case kRetire: retire(slot_at(e.place()), e.time); break;
  }
}

void Shard::start_instance(Slot& slot, std::int32_t instance) {
  if (slot.cluster != nullptr) return start_cluster(*slot.cluster);
  const auto i = static_cast<std::size_t>(instance);
  slot.instance = instance;
  slot.shape_index = chip_.program.instance_template[i];
  slot.shape = &chip_.program.templates[static_cast<std::size_t>(slot.shape_index)];
  slot.start = slot.end = now_;
  slot.grid_syncs = 0;
  slot.nodes = &slot.own;
  slot.own.start(*slot.shape, chip_.fresh[static_cast<std::size_t>(slot.shape_index)],
                 chip_.program.columns.data() + static_cast<std::ptrdiff_t>(instance) * chip_.program.columns_width);
  slot.remaining = slot.own.total();
  chip_.outcome.instance_start[i] = now_;
  chip_.outcome.instance_sm[i] = slot.sm;
  begin_first(slot);
}

// The nodes of the instance in `slot` that wait for nothing are ready.
void Shard::begin_first(Slot& slot) {
  const Template& t = *slot.shape;
  for (const std::int32_t at : t.first) {
    const std::int32_t repeat = t.info[static_cast<std::size_t>(at)].repeat;
    std::int32_t place = place_of(slot);
    if (slot.cluster != nullptr) {
      const Place& there = slot.cluster->places[static_cast<std::size_t>(t.cta[static_cast<std::size_t>(at)])];
      place = there.sm * chip_.machine.ctas_per_sm + there.slot;
    }
    ready_.push_back({place, at, now_});
    if (repeat < 0) continue;
    for (std::int32_t run = 1; run < slot.nodes->times(repeat); ++run) ready_.push_back({place, slot.nodes->in_run(repeat, run, at), now_});
  }
}

// The CTA has ended at `when`, which is not in the future.
void Shard::retire(Slot& slot, Tick when) {
  end = std::max(end, when);
  if (slot.cluster == nullptr) {
    chip_.outcome.instance_end[static_cast<std::size_t>(slot.instance)] = when;
    slot.instance = -1;
  }
  messages.push_back({when, place_of(slot), 0, ChipMessage::kEnded});
  stopped = chip_.more && now_ + chip_.machine.cta_gap < until_;
}

// Release edges [from, to) of the template of `node`, which leave it, at `when`.
void Shard::release(Slot& slot, std::int32_t node, std::int32_t from, std::int32_t to, Tick when) {
  if (from == to) return;
  const NodeState& source = (*slot.nodes)[node];
  const std::int32_t run = source.run, base = node - source.at;  // node `at` of this run is base + at
  const Edge* const end_edge = slot.shape->edges.data() + to;
  for (const Edge* e = slot.shape->edges.data() + from; e != end_edge; ++e) {
    const Edge edge = *e;
    switch (edge.mode) {
      case EdgeMode::kPlain:
      case EdgeMode::kEachRun: arrive(slot, edge.dst, edge.reason, when); break;
      case EdgeMode::kSameRun: arrive(slot, base + edge.dst, edge.reason, when); break;
      case EdgeMode::kNextRun:
        if (run + 1 < slot.nodes->times(edge.repeat)) arrive(slot, slot.nodes->in_run(edge.repeat, run + 1, edge.dst), edge.reason, when);
        break;
      case EdgeMode::kLastRun:
        if (run + 1 == slot.nodes->times(edge.repeat)) arrive(slot, edge.dst, edge.reason, when);
        break;
      case EdgeMode::kEveryRun: {
        for (std::int32_t r = 0; r <= slot.nodes->newest(edge.repeat); ++r) {
          const std::int32_t there = slot.nodes->in_run(edge.repeat, r, edge.dst);
          if (there >= 0) arrive(slot, there, edge.reason, when);
        }
        slot.nodes->release_later(edge.repeat, edge.dst, edge.reason, when);
        break;
      }
    }
  }
}

// One edge into `node` is released at `when`; a node without missing edges becomes ready then.
void Shard::arrive(Slot& slot, std::int32_t node, std::uint8_t reason, Tick when) {
  NodeState& state = (*slot.nodes)[node];
  if (!state.arrive(reason, when)) return;
  if (state.reason != kProgramOrder)
    stats_of(slot, state).wait[static_cast<std::size_t>(state.reason)] += state.when - std::max(state.ordered, slot.start);
  std::int32_t place = place_of(slot);
  if (slot.cluster != nullptr) {
    const Place& at = slot.cluster->places[static_cast<std::size_t>(slot.shape->cta[static_cast<std::size_t>(state.at)])];
    place = at.sm * chip_.machine.ctas_per_sm + at.slot;
  }
  // What needs no resource has no rival: it may begin ahead of its time.
  if (state.when == now_ || info_of(slot, state).demand.free) {
    ready_.push_back({place, node, state.when});
  } else {
    queue_.push(state.when, Event::pack(kBegin, place, node));
  }
}

void Shard::drain() {
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const Ready r = ready_[i];
    begin(slot_at(r.place), r.node, r.when);
  }
  ready_.clear();
}

void Shard::begin(Slot& slot, std::int32_t node, Tick when) {
  NodeState& state = (*slot.nodes)[node];
  const NodeInfo& info = info_of(slot, state);
  const Demand& demand = info.demand;
  state.when = kNever;  // no service yet
  if (demand.simple) {  // the common case
    state.ordered = when;
    const Stage& stage = *info.stages;
    Sm& sm = core(slot.sm);
    std::int32_t blocked_on = -1;
    const Tick free = earliest(slot.sm, stage, &blocked_on);
    if (free <= when) {
      sm.last_age = next_age_++;
      finish_simple(slot, node, info, when, when + occupy(slot, state, stage, when));
    } else {
      compete(slot, node, stage, free, when);
    }
    return;
  }
  if (demand.signal != GridSignal::kNone && held(slot, node, demand.signal)) return;
  state.ordered = when;
  if (demand.warp_stages == 0) warps_go_on(slot, node, when);
  if (demand.stage_begin == demand.stage_end) {
    complete(slot, node, when);
  } else {
    run_stage(slot, node, when);
  }
}

// Whether a node has to wait for other kernels or other CTAs; it then begins anew when they are there.
bool Shard::held(Slot& slot, std::int32_t node, GridSignal signal) {
  if (signal == GridSignal::kWait) {
    Tick& reached = chip_.outcome.instance_wait[static_cast<std::size_t>(slot.instance)];
    reached = std::min(reached, now_);
    if (now_ >= chip_.machine.grid_wait) return false;
    stats_of(slot, (*slot.nodes)[node]).wait[kSynchronisation] += chip_.machine.grid_wait - now_;
    queue_.push(chip_.machine.grid_wait, Event::pack(kBegin, place_of(slot), node));
    return true;
  }
  if (signal != GridSignal::kGrid) return false;
  if (slot.passing) {
    slot.passing = false;
    return false;
  }
  messages.push_back({now_, place_of(slot), node, ChipMessage::kAtGridBarrier});
  return true;
}

void Shard::run_stage(Slot& slot, std::int32_t node, Tick when) {
  NodeState& state = (*slot.nodes)[node];
  const Stage& stage = stage_of(slot, state);
  state.subop = 0;
  if (stage.kind == StageKind::kMemory) {
    start_transfer(slot, node, when);
  } else if (stage.uses.empty()) {
    warp_work(slot, node, when, when);
  } else if (when > now_) {
    queue_.push(when, Event::pack(kStage, place_of(slot), node));
  } else if (stage.kind == StageKind::kAsync) {
    async_begin(slot, node, when);
  } else {
    // The common case, a short stage whose resources are free, needs no arbitration.
    Sm& sm = core(slot.sm);
    std::int32_t blocked_on = -1;
    const Tick free = earliest(slot.sm, stage, &blocked_on);
    if (stage.subops == 1 && free <= when) {
      sm.last_age = next_age_++;
      warp_work(slot, node, when, when + occupy(slot, state, stage, when));
    } else {
      compete(slot, node, stage, free, when);
    }
  }
}

// A warp stage cannot start, or not end in one piece: from `when` on it competes for what it needs, which is free at `free`.
void Shard::compete(Slot& slot, std::int32_t node, const Stage& stage, Tick free, Tick when) {
  core(slot.sm).candidates.push_back({place_of(slot), node, when, next_age_++, -1, &stage});
  schedule_issue(slot.sm, std::max(when, free));
}

// The only piece of a simple node works from `start` to `end_time`: all that follows from it.
void Shard::finish_simple(Slot& slot, std::int32_t node, const NodeInfo& info, Tick start, Tick end_time) {
  NodeState& state = (*slot.nodes)[node];
  const Tick latency = info.stages->latency, ordered = state.ordered;
  const std::int32_t run = state.run;
  state.when = end_time;
  NodeStats& s = stats_of(slot, state);
  s.queue += start - ordered;
  s.service += end_time - start;
  s.latency += latency;
  ++s.count;
  release(slot, node, info.edge_begin, info.issue_end, end_time);
  release(slot, node, info.issue_end, info.edge_end, end_time + latency);
  if (slot.sm == chip_.observed_sm) {
    const NodeState& done = (*slot.nodes)[node];
    spans.push_back({slot.sm, slot.instance, done.at, run, ordered, start, end_time, end_time + latency});
  }
  ended(slot, info, run, end_time + latency);
}

// The last piece of a warp stage works from `start` to `end`.
void Shard::warp_work(Slot& slot, std::int32_t node, Tick start, Tick end_time) {
  NodeState& state = (*slot.nodes)[node];
  if (state.when == kNever) state.when = start;
  const Tick latency = latency_of(stage_of(slot, state), slot);
  if (state.stage + 1 == info_of(slot, state).demand.warp_stages) warps_go_on(slot, node, end_time);
  next_stage(slot, node, end_time + latency);
}

// The last stage that holds the warps ends at `when`: they go on.
void Shard::warps_go_on(Slot& slot, std::int32_t node, Tick when) {
  NodeState& state = (*slot.nodes)[node];
  const Tick begun = state.when == kNever ? when : state.when;
  state.when = when;
  NodeStats& s = stats_of(slot, state);
  s.queue += begun - state.ordered;
  s.service += when - begun;
  ++s.count;
  if (slot.sm == chip_.observed_sm) begun_.push_back({place_of(slot), node, begun});
  const NodeInfo& info = info_of(slot, state);
  if (info.demand.signal == GridSignal::kTrigger) {
    Tick& trigger = chip_.outcome.instance_trigger[static_cast<std::size_t>(slot.instance)];
    trigger = std::min(trigger, when);
  }
  release(slot, node, info.edge_begin, info.issue_end, when);
}

void Shard::next_stage(Slot& slot, std::int32_t node, Tick when) {
  NodeState& state = (*slot.nodes)[node];
  const Demand& demand = info_of(slot, state).demand;
  if (demand.stage_begin + ++state.stage < demand.stage_end) {
    run_stage(slot, node, when);
  } else {
    complete(slot, node, when);
  }
}

// Record when the node that completes at `done` was ready, began and let its warps go on.
void Shard::note_span(const Slot& slot, std::int32_t node, const NodeState& state, Tick done) {
  const auto mine = std::find_if(begun_.begin(), begun_.end(), [&](const Ready& r) { return r.place == place_of(slot) && r.node == node; });
  spans.push_back({slot.sm, slot.instance, state.at, state.run, state.ordered, mine->when, state.when, done});
  begun_.erase(mine);
}

void Shard::complete(Slot& slot, std::int32_t node, Tick when) {
  const NodeState state = (*slot.nodes)[node];
  stats_of(slot, state).latency += when - state.when;
  if (slot.sm == chip_.observed_sm) note_span(slot, node, state, when);
  const NodeInfo& info = info_of(slot, state);
  release(slot, node, info.issue_end, info.edge_end, when);
  ended(slot, info, state.run, when);
}

// A node of run `run` has completed, or will have at `when`.
void Shard::ended(Slot& slot, const NodeInfo& info, std::int32_t run, Tick when) {
  if (run > 0) slot.nodes->leave(info.repeat, run);
  slot.end = std::max(slot.end, when);
  if (--slot.remaining > 0) return;
  if (slot.end <= now_) {
    retire(slot, slot.end);
  } else {
    queue_.push(slot.end, Event::pack(kRetire, place_of(slot), 0));
  }
}

}  // namespace gtsim
