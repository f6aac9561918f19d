#include "engine.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

#include "team.hpp"

namespace gtsim {

namespace {

constexpr Tick kLatest = Tick{1} << (46 + kTickBits);

// A message takes half of the least L2 latency each way, and some time in any case.
Tick message_time(const Machine& machine) {
  return std::max(std::min(machine.l2_near, machine.l2_far) / 2, kTicksPerCycle);
}

// What passes between shards sooner than a message shortens the windows.
Tick window_length(const Program& program) {
  constexpr Tick kShortest = 8 * kTicksPerCycle;
  const bool meets = std::any_of(program.demands.begin(), program.demands.end(), [](const Demand& d) { return d.signal == GridSignal::kGrid; });
  return std::min(message_time(program.machine), meets ? std::max(program.machine.grid_sync, kShortest) : kNever);
}

}  // namespace

Engine::Engine(const Program& program, std::int32_t observed_sm, std::int32_t threads, std::function<void(double)> poll)
    : program_(program), machine_(program.machine), poll_(std::move(poll)),
      chip_{program, program.machine, observed_sm, message_time(program.machine), Route(program.machine), false, std::vector<Tick>(Servers::count(program.machine), 0), {}, {}, {}, {}},
      shard_of_(static_cast<std::size_t>(program.machine.sms)),
      stats_(static_cast<std::size_t>(std::max(threads, 1))), placement_(program.machine) {
  chip_.slots.resize(shard_of_.size() * static_cast<std::size_t>(machine_.ctas_per_sm));
  for (std::size_t place = 0; place < chip_.slots.size(); ++place) {
    chip_.slots[place].sm = static_cast<std::int32_t>(place) / machine_.ctas_per_sm;
    chip_.slots[place].index = static_cast<std::int32_t>(place) % machine_.ctas_per_sm;
  }
  for (std::size_t gpc = 0; gpc < machine_.gpc_end.size(); ++gpc) {
    const std::int32_t first = gpc == 0 ? 0 : machine_.gpc_end[gpc - 1];
    chip_.networks.emplace_back(machine_.network, first, machine_.gpc_end[gpc] - first);
  }
  for (const Template& t : program.templates) {
    for (Stats& stats : stats_) stats.emplace_back(static_cast<std::size_t>(t.nodes));
    auto& nodes = chip_.fresh.emplace_back();
    for (const NodeInfo& info : t.info)
      nodes.push_back({0, 0, info.in_degree, static_cast<std::int32_t>(nodes.size()), 0, 0, 0, 0});
  }
  Outcome& out = chip_.outcome;
  const std::size_t instances = program.instance_template.size();
  out.instance_start.assign(instances, 0);
  out.instance_end.assign(instances, 0);
  out.instance_trigger.assign(instances, kNever);
  out.instance_wait.assign(instances, kNever);
  out.instance_sm.assign(instances, 0);
  window_ = window_length(program);
  make_shards();
  // By line, groups of slices are apart from each other; runs of lines spread over all of them.
  for (std::size_t m = 0; m < chip_.route.parts; ++m) memory_.emplace_back(chip_, chip_.free.data(), m, shards_.size());
  next_.assign(memory_.size() + shards_.size(), kNever);
  events_.assign(next_.size(), 0);
  balanced_ = events_;
  told_.assign(shards_.size(), 0);
  for (std::vector<std::uint8_t>& sent : sent_) sent = told_;
  first_task_.assign(stats_.size() + 1, next_.size());
  for (std::size_t t = 0; t < stats_.size(); ++t) first_task_[t] = next_.size() * t / stats_.size();
}

// An SM is a shard; those that share a resource, or run CTAs of one cluster, are one together.
void Engine::make_shards() {
  Scope widest = machine_.cluster_size > 1 ? Scope::kGpc : Scope::kSm;
  for (const Use& use : program_.uses) widest = std::max(widest, machine_.scopes[static_cast<std::size_t>(use.resource)]);
  for (const MemoryAccess& access : program_.memory)
    for (const Use* use : {&access.front, &access.port, &access.sink})
      if (use->resource >= 0) widest = std::max(widest, machine_.scopes[static_cast<std::size_t>(use->resource)]);
  const std::int32_t* group = machine_.by_sm[static_cast<std::size_t>(widest)].data();
  for (std::int32_t first = 0; first < machine_.sms;) {
    std::int32_t end = first;
    while (end < machine_.sms && group[end] == group[first]) shard_of_[static_cast<std::size_t>(end++)] = static_cast<std::int32_t>(shards_.size());
    shards_.emplace_back(chip_, first, end);
    first = end;
  }
}

Outcome Engine::run() {
  launch();
  watch_periods();
  Team(stats_.size()).run([this](std::size_t thread, std::size_t task) { work(thread, task); }, [this]() -> auto& { return next_window(); });
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  if (finished_ < total) report_deadlock();
  return outcome();
}

// One task of this window: of the memory system, or of a shard.
void Engine::work(std::size_t thread, std::size_t task) {
  if (task < memory_.size()) {
    if (catching_up_) return;
    next_[task] = memory_[task].run(until_, side_, shards_, sent_[1 - side_]);
    events_[task] = memory_[task].events;
    return;
  }
  const std::size_t s = task - memory_.size();
  Shard& shard = shards_[s];
  if (!catching_up_) sent_[side_][s] = 0;
  if (shard.stopped) return;
  bool idle = next_[task] >= until_;
  for (MemorySide& memory : memory_) {
    std::vector<Answer>& inbox = memory.inbox[1 - side_][s];
    for (const Answer& a : inbox) shard.answer(a);
    idle = idle && inbox.empty();
    inbox.clear();
  }
  if (idle) return;
  next_[task] = shard.run(until_, side_, stats_[thread]);
  events_[task] = shard.events;
  told_[s] = !shard.messages.empty();
  sent_[side_][s] = shard.sends(side_);
}

// Between windows: the chip acts on what it was told; shards that had to wait for that catch up; then the next window begins with
// the next event. Returns how its tasks are divided, or nothing if all is done.
const std::vector<std::size_t>& Engine::next_window() {
  catching_up_ = deliver();
  if (catching_up_) return first_task_;
  const Tick next = *std::min_element(next_.begin(), next_.end());
  if (next == kNever) first_task_.clear();
  if (next == kNever) return first_task_;
  if (next > kLatest) throw std::runtime_error("the run would take longer than 2^46 cycles");
  until_ = next + window_;
  side_ = 1 - side_;
  ++windows_;
  constexpr std::int64_t kPollEvents = 1 << 15, kBalanceWindows = 64;
  const std::int64_t events = std::accumulate(events_.begin(), events_.end(), std::int64_t{0});
  if (events - polled_ >= kPollEvents) {
    polled_ = events;
    poll_(static_cast<double>(finished_) / static_cast<double>(program_.instance_template.size()));
  }
  if (stats_.size() > 1 && windows_ % kBalanceWindows == 0) balance();
  return first_task_;
}

// Divide the tasks among the threads by the events that each had since the last time.
void Engine::balance() {
  std::vector<std::int64_t> load(next_.size());
  std::int64_t total = 0;
  for (std::size_t task = 0; task < load.size(); ++task) {
    load[task] = events_[task] - balanced_[task] + 1;
    balanced_[task] = events_[task];
    total += load[task];
  }
  std::size_t thread = 1;
  std::int64_t sum = 0;
  for (std::size_t task = 0; task < load.size() && thread < stats_.size(); ++task) {
    sum += load[task];
    while (thread < stats_.size() && sum * static_cast<std::int64_t>(stats_.size()) >= total * static_cast<std::int64_t>(thread))
      first_task_[thread++] = task + 1;
  }
  while (thread < stats_.size()) first_task_[thread++] = load.size();
}

// The chip's part of the result, and what shards and memory system counted.
Outcome Engine::outcome() {
  Outcome& out = chip_.outcome;
  const Mark total = mark(0);
  out.traffic = total.traffic;
  out.nodes = total.nodes;
  out.busy = total.busy;
  out.queued = total.queued;
  out.events = std::accumulate(events_.begin(), events_.end(), std::int64_t{0});
  for (const Noc& network : chip_.networks) {
    out.network += network.stats;
    out.network_links += network.links();
  }
  for (const Shard& shard : shards_) {
    out.end = std::max(out.end, shard.end);
    out.spans.insert(out.spans.end(), shard.spans.begin(), shard.spans.end());
  }
  Tick dram = 0;
  for (const MemorySide& memory : memory_) dram += memory.memory.dram_busy() - memory.memory.dram_left(out.end);
  if (program_.keep_l2)
    for (MemorySide& memory : memory_) memory.memory.leave(out.l2);
  out.end += out.skipped_time;
  out.busy.push_back(std::clamp<Tick>(dram, 0, out.end));
  return std::move(out);
}

}  // namespace gtsim
