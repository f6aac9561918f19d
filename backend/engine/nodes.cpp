#include "nodes.hpp"

#include <algorithm>
#include <stdexcept>

#include "event_queue.hpp"

namespace gtsim {

void Nodes::start(const Template& t, const std::vector<NodeState>& fresh, const std::int64_t* columns) {
  shape_ = &t;
  fresh_ = &fresh;
  states_.assign(fresh.begin(), fresh.end());
  total_ = t.nodes;
  repeats_.resize(t.repeats.size());
  for (std::size_t r = 0; r < t.repeats.size(); ++r) {
    const Repeat& repeat = t.repeats[r];
    Repeated& mine = repeats_[r];
    mine.times = static_cast<std::int32_t>(repeat.times + (repeat.column >= 0 ? columns[repeat.column] : 0));
    mine.newest = 0;
    mine.cells.assign(std::max<std::size_t>(mine.cells.size(), 4), Cell{});
    mine.unused.clear();
    mine.early.clear();
    total_ += static_cast<std::int64_t>(mine.times - 1) * repeat.nodes;
  }
  if (total_ > kMaxNodes) throw std::runtime_error("a CTA executes more operations than the engine can number");
  for (const EachRun& each : t.each)
    states_[static_cast<std::size_t>(each.dst)].missing += each.count * (times(each.repeat) - 1);
  for (std::size_t r = 0; r < t.repeats.size(); ++r)
    if (t.repeats[r].eager)
      for (std::int32_t run = 1; run < repeats_[r].times; ++run) begin_run(static_cast<std::int32_t>(r), run);
}

// Runs from the newest to `run` begin to exist; returns the first node of `run`.
std::int32_t Nodes::begin_run(std::int32_t repeat, std::int32_t run) {
  Repeated& r = repeats_[static_cast<std::size_t>(repeat)];
  const Repeat& body = shape_->repeats[static_cast<std::size_t>(repeat)];
  std::int32_t first = 0;
  while (r.newest < run) {
    const std::int32_t next = ++r.newest;
    while (r.cells[static_cast<std::size_t>(next) & (r.cells.size() - 1)].left > 0) {  // twice as many, none lost
      std::vector<Cell> more(r.cells.size() * 2);
      for (const Cell& cell : r.cells)
        if (cell.run >= 0) more[static_cast<std::size_t>(cell.run) & (more.size() - 1)] = cell;
      r.cells.swap(more);
    }
    if (r.unused.empty()) {
      first = static_cast<std::int32_t>(states_.size());
      states_.resize(states_.size() + static_cast<std::size_t>(body.nodes));
    } else {
      first = r.unused.back();
      r.unused.pop_back();
    }
    r.cells[static_cast<std::size_t>(next) & (r.cells.size() - 1)] = {next, first, body.nodes};
    std::copy_n(fresh_->begin() + body.first, body.nodes, states_.begin() + first);
    for (std::int32_t n = first; n < first + body.nodes; ++n) states_[static_cast<std::size_t>(n)].run = next;
    for (const Early& e : r.early) states_[static_cast<std::size_t>(first + e.at - body.first)].arrive(e.reason, e.when);
  }
  return first;
}

}  // namespace gtsim
