// Skipping what repeats: where CTAs retire at a steady rate, whole periods of the launch order are left out and accounted for.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine.hpp"

namespace gtsim {

namespace {

// What a counter gains in `times` periods, from its values at the ends of `periods` of them.
std::int64_t gain(std::int64_t before, std::int64_t after, std::int64_t times, std::int64_t periods) {
  return (after - before) / periods * times + (after - before) % periods * times / periods;
}

}  // namespace

// The launch order repeats every `machine_.sequence_period` instances: watch the times at which as many of them as fill the chip
// have retired.
void Engine::watch_periods() {
  const std::int64_t sequence = machine_.sequence_period;
  if (sequence > 0) period_ = static_cast<std::int32_t>((next_instance_ + sequence - 1) / sequence * sequence);
}

// Called when an instance has retired. Skips once, when the periods that were watched say how long those left out will take.
void Engine::note_retired(Tick now) {
  if (period_ == 0 || finished_ % period_ != 0) return;
  marks_.push_back(mark(now));
  if (marks_.size() > kWatched + 1) marks_.pop_front();
  const std::int32_t left = static_cast<std::int32_t>(program_.instance_template.size()) - next_instance_;
  const std::int32_t times = left / period_ - kKept;
  if (times < 1) {
    period_ = 0;
    marks_.clear();
    return;
  }
  const Steady steady = equal_periods(times);
  const Steady found = steady.periods > 0 ? steady : even_periods();
  if (found.periods == 0) return;
  skip_periods(times, found.periods);
  constexpr Tick kMillion = 1000000;
  chip_.outcome.bound_ppm = found.error * kMillion / ((now - marks_[marks_.size() - 1 - found.periods].time) / static_cast<Tick>(found.periods));
  period_ = 0;
  marks_.clear();
}

// Periods in which every kind of reuse is seen: CTAs of one row of the grid share operands, so do those of the next.
std::size_t Engine::enough_periods() const {
  return static_cast<std::size_t>((machine_.steady_ctas + period_ - 1) / period_);
}

// The last four periods (or more), if they took the same time within the spread, and the trend of the last twelve would not change what is left
// out by more than the drift.
Engine::Steady Engine::equal_periods(std::int32_t times) const {
  constexpr std::size_t kTrend = 12;
  const std::size_t n = marks_.size() - 1, equal = std::max<std::size_t>(4, enough_periods());
  if (n < equal) return {};
  const auto interval = [&](std::size_t i) { return marks_[i + 1].time - marks_[i].time; };
  const Tick mean = (marks_[n].time - marks_[n - equal].time) / static_cast<Tick>(equal);
  Tick spread = 0, slope = 0;  // slope: least squares, ticks a period
  for (std::size_t i = n - equal; i < n; ++i) spread = std::max(spread, std::abs(interval(i) - mean));
  const std::size_t watched = std::min(n, kTrend);
  const auto count = static_cast<Tick>(watched);
  for (std::size_t i = 0; i < watched; ++i) slope += (2 * static_cast<Tick>(i) - count + 1) * interval(n - watched + i);
  const Tick drift = std::abs(6 * slope / (count * (count * count - 1))) * times / 2;
  if (spread > share(mean, machine_.steady_spread_ppm, 1000000) || drift > share(mean, machine_.steady_drift_ppm, 1000000)) return {};
  return {equal, spread + drift};
}

// All periods that were watched, if there are many, their mean is known to within the spread (three standard errors), and that of the
// first half differs from that of the second by no more than chance would have it.
Engine::Steady Engine::even_periods() const {
  constexpr std::size_t kMany = 12;
  const std::size_t n = (marks_.size() - 1) / 2 * 2;
  if (n < std::max(kMany, enough_periods())) return {};
  const std::size_t first = marks_.size() - 1 - n;
  const auto mean = static_cast<double>(marks_.back().time - marks_[first].time) / static_cast<double>(n);
  double squares = 0;
  for (std::size_t i = first; i < first + n; ++i) {
    const double off = static_cast<double>(marks_[i + 1].time - marks_[i].time) - mean;
    squares += off * off;
  }
  const double error = 3 * std::sqrt(squares / static_cast<double>(n - 1) / static_cast<double>(n));
  const Tick middle = marks_[first + n / 2].time;
  const auto halves = static_cast<double>((marks_.back().time - middle) - (middle - marks_[first].time)) / static_cast<double>(n / 2);
  if (error * 1e6 > mean * static_cast<double>(machine_.steady_spread_ppm) || std::abs(halves) > error) return {};
  return {n, static_cast<Tick>(error + std::abs(halves))};
}

// What has been counted so far.
Engine::Mark Engine::mark(Tick now) const {
  Mark m{now, {}, std::vector<Tick>(machine_.scopes.size(), 0), std::vector<Tick>(machine_.scopes.size(), 0), 0, stats_.front(), {}};
  for (const Noc& network : chip_.networks) m.networks.push_back(network.stats);
  const auto count = [&m](const Servers& servers) {
    for (std::size_t r = 0; r < m.busy.size(); ++r) {
      m.busy[r] += servers.busy()[r];
      m.queued[r] += servers.queued()[r];
    }
  };
  for (const Shard& shard : shards_) count(shard.servers);
  for (const MemorySide& memory : memory_) {
    count(memory.servers);
    m.dram_busy += memory.memory.dram_busy();
    for (const auto field : kTrafficFields) m.traffic.*field += memory.traffic.*field;
  }
  for (std::size_t thread = 1; thread < stats_.size(); ++thread)
    for (std::size_t t = 0; t < m.nodes.size(); ++t)
      for (std::size_t n = 0; n < m.nodes[t].size(); ++n) m.nodes[t][n].add(stats_[thread][t][n]);
  return m;
}

// Leave out the next `times` periods, which are like the last `periods`.
void Engine::skip_periods(std::int32_t times, std::size_t periods) {
  const Mark &now = marks_.back(), &before = marks_[marks_.size() - 1 - periods];
  const auto watched = static_cast<std::int64_t>(periods);
  const auto grow = [&](std::int64_t old, std::int64_t current, std::int64_t& value) { value += gain(old, current, times, watched); };
  MemorySide& memory = memory_.front();
  for (const auto field : kTrafficFields) grow(before.traffic.*field, now.traffic.*field, memory.traffic.*field);
  for (std::size_t r = 0; r < before.busy.size(); ++r) {
    memory.servers.add_busy(static_cast<std::int32_t>(r), gain(before.busy[r], now.busy[r], times, watched));
    memory.servers.add_queued(static_cast<std::int32_t>(r), gain(before.queued[r], now.queued[r], times, watched));
  }
  memory.memory.add_dram_busy(gain(before.dram_busy, now.dram_busy, times, watched));
  for (std::size_t gpc = 0; gpc < chip_.networks.size(); ++gpc)
    for (const auto field : {&NetworkStats::requests, &NetworkStats::bytes, &NetworkStats::hops, &NetworkStats::residence,
                             &NetworkStats::link_wait, &NetworkStats::link_busy})
      grow(before.networks[gpc].*field, now.networks[gpc].*field, chip_.networks[gpc].stats.*field);
  for (std::size_t t = 0; t < before.nodes.size(); ++t)
    for (std::size_t n = 0; n < before.nodes[t].size(); ++n) {
      const NodeStats &old = before.nodes[t][n], &current = now.nodes[t][n];
      NodeStats& stats = stats_.front()[t][n];
      for (std::size_t w = 0; w < stats.wait.size(); ++w) grow(old.wait[w], current.wait[w], stats.wait[w]);
      for (const auto field : {&NodeStats::queue, &NodeStats::service, &NodeStats::latency, &NodeStats::count})
        grow(old.*field, current.*field, stats.*field);
    }
  // An instance that is left out lives as long as the one a whole number of periods before it that has retired.
  Outcome& out = chip_.outcome;
  const std::int32_t count = times * period_;
  for (std::int32_t i = next_instance_; i < next_instance_ + count; ++i) {
    std::int32_t like = i - period_;
    while (like >= period_ && (like >= next_instance_ || out.instance_end[static_cast<std::size_t>(like)] == 0)) like -= period_;
    out.instance_end[static_cast<std::size_t>(i)] =
        out.instance_end[static_cast<std::size_t>(like)] - out.instance_start[static_cast<std::size_t>(like)];
  }
  next_instance_ += count;
  finished_ += count;
  out.skipped = count;
  out.skipped_time = gain(before.time, now.time, times, watched);
}

}  // namespace gtsim
