#include "engine.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace gtsim {

Engine::Engine(const Program& program, std::int32_t observed_sm, std::function<void(double)> poll)
    : program_(program), machine_(program.machine), observed_sm_(observed_sm), poll_(std::move(poll)),
      servers_(program.machine), memory_(program.machine, servers_, outcome_.traffic),
      sms_(static_cast<std::size_t>(program.machine.sms)), placement_(program.machine) {
  for (Sm& sm : sms_) sm.slots.resize(static_cast<std::size_t>(machine_.ctas_per_sm));
  for (const Template& t : program.templates) {
    outcome_.nodes.emplace_back(static_cast<std::size_t>(t.nodes));
    piece_cache_.emplace_back(t.tile_buffer.size());
    auto& nodes = fresh_.emplace_back();
    for (const NodeInfo& info : t.info)
      nodes.push_back({0, 0, kNever, 0, info.in_degree, 0, 0, 0, static_cast<std::int32_t>(nodes.size()), 0});
  }
  outcome_.instance_start.assign(program.instance_template.size(), 0);
  outcome_.instance_end.assign(program.instance_template.size(), 0);
  outcome_.instance_trigger.assign(program.instance_template.size(), kNever);
  outcome_.instance_wait.assign(program.instance_template.size(), kNever);
  outcome_.instance_sm.assign(program.instance_template.size(), 0);
}

Outcome Engine::run() {
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  Tick when = machine_.kernel_launch;
  if (machine_.cluster_size > 1) {
    for (const Tick free : machine_.place_free) when = std::max(when, free);
    place_clusters(when);
  }
  for (const std::int32_t place : places()) {
    if (machine_.cluster_size > 1 || next_instance_ == total) break;
    const std::int32_t sm = place % machine_.sms, slot = place / machine_.sms;
    if (!machine_.place_free.empty()) when = std::max(when, machine_.place_free[static_cast<std::size_t>(place)]);
    sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot)].instance = next_instance_;
    queue_.push(when, kStart, sm, slot, next_instance_++);
    when += machine_.cta_dispatch;
  }
  watch_periods();
  constexpr std::int64_t kPollEvery = 1 << 15;
  while (!queue_.empty()) {
    const Event e = queue_.pop();
    if ((++outcome_.events & (kPollEvery - 1)) == 0) poll_(static_cast<double>(finished_) / total);
    outcome_.end = std::max(outcome_.end, e.time);
    now_ = e.time;
    switch (static_cast<Kind>(e.kind())) {
      case kStart: start_instance(e.sm(), e.a(), e.b(), e.time); break;
      case kBegin: begin(e.sm(), e.a(), e.b(), e.time); break;
      case kStage: run_stage(e.sm(), e.a(), e.b(), e.time); break;
      case kIssue: {
        Sm& sm = sms_[static_cast<std::size_t>(e.sm())];
        if (sm.next_issue == e.time) {
          sm.next_issue = kNever;
          arbitrate(e.sm(), e.time);
        }
        break;
      }
      case kAsync: async_piece(e.sm(), e.a(), e.b(), e.time); break;
      case kL2: at_l2(e.a(), e.time); break;
      case kReturn: returned(e.a(), e.time); break;
      case kDeposit: deposit(e.a(), e.time); break;
      case kPieceDone: piece_done(e.a(), e.time); break;
      case kStore: store_piece(e.a(), e.time); break;
      case kRetire: retire(e.sm(), e.a(), e.time); break;
    }
    drain(e.time);
  }
  if (finished_ < total)
    throw std::runtime_error("deadlock: " + std::to_string(total - finished_) + " of " + std::to_string(total) +
                             " CTAs cannot finish");
  outcome_.end += outcome_.skipped_time;
  outcome_.busy = servers_.busy();
  outcome_.queued = servers_.queued();
  outcome_.busy.push_back(memory_.dram_busy());
  return std::move(outcome_);
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

void Engine::start_instance(std::int32_t sm, std::int32_t slot_index, std::int32_t instance, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  if (slot.cluster != nullptr) return start_cluster(*slot.cluster, now);
  const Template& t = program_.templates[static_cast<std::size_t>(program_.instance_template[static_cast<std::size_t>(instance)])];
  slot.instance = instance;
  slot.shape = &t;
  slot.end = now;
  slot.start = now;
  slot.grid_syncs = 0;
  const auto index = static_cast<std::size_t>(&t - program_.templates.data());
  slot.stats = outcome_.nodes[index].data();
  slot.own.states = fresh_[index];
  if (!t.repeats.empty()) add_runs(slot.own, t, instance);
  slot.use(slot.own);
  slot.remaining = static_cast<std::int32_t>(slot.own.states.size());
  outcome_.instance_start[static_cast<std::size_t>(instance)] = now;
  outcome_.instance_sm[static_cast<std::size_t>(instance)] = sm;
  for (std::int32_t node = 0; node < slot.remaining; ++node)
    if (slot.nodes[static_cast<std::size_t>(node)].missing == 0) ready_.push_back({sm, slot_index, node});
}

// Append the nodes of all further runs of the template's repeats.
void Engine::add_runs(Nodes& nodes, const Template& t, std::int32_t instance) const {
  const std::int64_t* columns = program_.columns.data() + static_cast<std::ptrdiff_t>(instance) * program_.columns_width;
  std::vector<NodeState>& states = nodes.states;
  nodes.base.clear();
  nodes.times.clear();
  for (const Repeat& repeat : t.repeats) {
    const std::int64_t times = repeat.times + (repeat.column >= 0 ? columns[repeat.column] : 0);
    if (static_cast<std::int64_t>(states.size()) + (times - 1) * repeat.nodes > kMaxIndex)
      throw std::runtime_error("a CTA executes more operations than the engine can number");
    nodes.base.push_back(static_cast<std::int32_t>(states.size()));
    nodes.times.push_back(static_cast<std::int32_t>(times));
    for (std::int32_t run = 1; run < times; ++run)
      for (std::int32_t at = repeat.first; at < repeat.first + repeat.nodes; ++at) {
        states.push_back(states[static_cast<std::size_t>(at)]);
        states.back().run = run;
      }
  }
  for (const EachRun& each : t.each)
    states[static_cast<std::size_t>(each.dst)].missing += each.count * (nodes.times[static_cast<std::size_t>(each.repeat)] - 1);
}

void Engine::retire(std::int32_t sm, std::int32_t slot_index, Tick now) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  if (slot.cluster != nullptr) return retire_member(sm, slot_index, now);
  outcome_.instance_end[static_cast<std::size_t>(slot.instance)] = now;
  slot.instance = -1;
  ++finished_;
  note_retired(now);
  if (next_instance_ < static_cast<std::int32_t>(program_.instance_template.size()))
    queue_.push(now + machine_.cta_gap, kStart, sm, slot_index, next_instance_++);
}

const Stage& Engine::stage_of(const Slot& slot, std::int32_t node) const {
  return program_.stages[static_cast<std::size_t>(slot.info(node).demand.stage_begin + slot.nodes[static_cast<std::size_t>(node)].stage)];
}

// Release edges [from, to) of the template of `node`, which leave it, at `when`.
void Engine::release(std::int32_t sm, std::int32_t slot_index, std::int32_t node, std::int32_t from, std::int32_t to, Tick when) {
  const Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  for (std::int32_t e = from; e < to; ++e) {
    const Edge edge = slot.shape->edges[static_cast<std::size_t>(e)];
    if (edge.mode == EdgeMode::kPlain || edge.mode == EdgeMode::kEachRun) {
      arrive(sm, slot_index, edge.dst, edge.reason, when);
    } else if (edge.mode == EdgeMode::kEveryRun) {
      const std::int32_t r = slot.info(edge.dst).repeat;
      for (std::int32_t run = 0; run < slot.times[static_cast<std::size_t>(r)]; ++run)
        arrive(sm, slot_index, slot.in_run(r, run, edge.dst), edge.reason, when);
    } else {
      const std::int32_t r = slot.info(node).repeat, run = slot.nodes[static_cast<std::size_t>(node)].run;
      const bool last = run + 1 == slot.times[static_cast<std::size_t>(r)];
      if (edge.mode == EdgeMode::kSameRun) {
        arrive(sm, slot_index, slot.in_run(r, run, edge.dst), edge.reason, when);
      } else if (edge.mode == EdgeMode::kNextRun && !last) {
        arrive(sm, slot_index, slot.in_run(r, run + 1, edge.dst), edge.reason, when);
      } else if (edge.mode == EdgeMode::kLastRun && last) {
        arrive(sm, slot_index, edge.dst, edge.reason, when);
      }
    }
  }
}

// One edge into `index` is released at `when`; a node without missing edges becomes ready then.
void Engine::arrive(std::int32_t sm, std::int32_t slot_index, std::int32_t index, std::uint8_t reason, Tick when) {
  constexpr std::uint8_t kProgramOrder = 0;
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  NodeState& node = slot.nodes[static_cast<std::size_t>(index)];
  if (reason == kProgramOrder) node.ordered = when;
  if (when >= node.ready) {
    node.ready = when;
    node.reason = static_cast<std::int8_t>(reason);
  }
  if (--node.missing > 0) return;
  if (node.reason != kProgramOrder)
    slot.stats[node.at].wait[static_cast<std::size_t>(node.reason)] += node.ready - std::max(node.ordered, slot.start);
  const Place at = slot.cluster == nullptr ? Place{sm, slot_index}
                                           : slot.cluster->places[static_cast<std::size_t>(slot.shape->cta[static_cast<std::size_t>(node.at)])];
  if (node.ready == now_) {
    ready_.push_back({at.sm, at.slot, index});
  } else {
    queue_.push(node.ready, kBegin, at.sm, at.slot, index);
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
  const Demand& demand = slot.info(node).demand;
  if (demand.signal != GridSignal::kNone && held(sm, slot_index, node, demand.signal, now)) return;
  slot.nodes[static_cast<std::size_t>(node)].ordered = now;  // from here on: when it became ready
  if (demand.warp_stages == 0) warps_go_on(sm, slot_index, node, now);
  if (demand.stage_begin == demand.stage_end) {
    complete(sm, slot_index, node, now);
  } else {
    run_stage(sm, slot_index, node, now);
  }
}

// Whether a node has to wait for other kernels or other CTAs; it then begins anew when they are there.
bool Engine::held(std::int32_t sm, std::int32_t slot_index, std::int32_t node, GridSignal signal, Tick now) {
  constexpr std::size_t kSync = 4;  // such waiting counts as synchronisation
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  if (signal == GridSignal::kWait) {
    Tick& reached = outcome_.instance_wait[static_cast<std::size_t>(slot.instance)];
    reached = std::min(reached, now);
    if (now >= machine_.grid_wait) return false;
    slot.stats_of(node).wait[kSync] += machine_.grid_wait - now;
    queue_.push(machine_.grid_wait, kBegin, sm, slot_index, node);
    return true;
  }
  if (signal != GridSignal::kGrid) return false;
  if (slot.passing) {
    slot.passing = false;
    return false;
  }
  const auto number = static_cast<std::size_t>(slot.grid_syncs++);
  if (number == grid_barriers_.size()) grid_barriers_.emplace_back();
  std::vector<Arrival>& there = grid_barriers_[number];
  there.push_back({{sm, slot_index, node}, now});
  if (there.size() < program_.instance_template.size() * static_cast<std::size_t>(std::max(machine_.cluster_size, 1))) return true;
  const Tick go = now + machine_.grid_sync;
  for (const Arrival& a : there) {
    Slot& other = sms_[static_cast<std::size_t>(a.at.sm)].slots[static_cast<std::size_t>(a.at.slot)];
    other.passing = true;
    other.stats_of(a.at.node).wait[kSync] += go - a.when;
    queue_.push(go, kBegin, a.at.sm, a.at.slot, a.at.node);
  }
  return true;
}

void Engine::run_stage(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick when) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  Slot& slot = core.slots[static_cast<std::size_t>(slot_index)];
  const Stage& stage = stage_of(slot, node);
  slot.nodes[static_cast<std::size_t>(node)].subop = 0;
  if (stage.kind == StageKind::kMemory) {
    start_transfer(sm, slot_index, node, when);
  } else if (stage.uses_begin == stage.uses_end) {
    warp_work(sm, slot_index, node, when, when);
  } else if (when > now_) {
    queue_.push(when, kStage, sm, slot_index, node);
  } else if (stage.kind == StageKind::kAsync) {
    async_piece(sm, slot_index, node, when);
  } else {
    // The common case, a short stage whose resources are free, needs no arbitration.
    std::int32_t blocked_on = -1;
    const Tick free = earliest(sm, stage, &blocked_on);
    if (stage.subops == 1 && free <= when) {
      core.last_age = next_age_++;
      warp_work(sm, slot_index, node, when, when + occupy(sm, slot, node, stage, when));
    } else {
      core.candidates.push_back({slot_index, node, when, next_age_++, -1});
      schedule_issue(sm, std::max(when, free));
    }
  }
}

// The last piece of a warp stage works from `start` to `end`.
void Engine::warp_work(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick start, Tick end) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  NodeState& state = slot.nodes[static_cast<std::size_t>(node)];
  if (state.begun == kNever) state.begun = start;
  const Tick latency = stage_of(slot, node).latency;
  if (state.stage + 1 == slot.info(node).demand.warp_stages) warps_go_on(sm, slot_index, node, end);
  next_stage(sm, slot_index, node, end + latency);
}

// The last stage that holds the warps ends at `when`: they go on.
void Engine::warps_go_on(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick when) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  NodeState& state = slot.nodes[static_cast<std::size_t>(node)];
  if (state.begun == kNever) state.begun = when;
  state.done = when;
  NodeStats& s = slot.stats_of(node);
  s.queue += state.begun - state.ordered;
  s.service += when - state.begun;
  ++s.count;
  const NodeInfo& info = slot.info(node);
  if (info.demand.signal == GridSignal::kTrigger) {
    Tick& trigger = outcome_.instance_trigger[static_cast<std::size_t>(slot.instance)];
    trigger = std::min(trigger, when);
  }
  release(sm, slot_index, node, info.edge_begin, info.issue_end, when);
}

void Engine::next_stage(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick when) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const Demand& demand = slot.info(node).demand;
  if (demand.stage_begin + ++slot.nodes[static_cast<std::size_t>(node)].stage < demand.stage_end) {
    run_stage(sm, slot_index, node, when);
  } else {
    complete(sm, slot_index, node, when);
  }
}

void Engine::complete(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick when) {
  Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const NodeState& state = slot.nodes[static_cast<std::size_t>(node)];
  slot.stats_of(node).latency += when - state.done;
  if (sm == observed_sm_)
    outcome_.spans.push_back({sm, slot.instance, state.at, state.run, state.ordered, state.begun == kNever ? state.ordered : state.begun, state.done, when});
  const NodeInfo& info = slot.info(node);
  release(sm, slot_index, node, info.issue_end, info.edge_end, when);
  slot.end = std::max(slot.end, when);
  if (--slot.remaining > 0) return;
  if (slot.end == now_) {
    retire(sm, slot_index, now_);
  } else {
    queue_.push(slot.end, kRetire, sm, slot_index, 0);
  }
}

}  // namespace gtsim
