// The nodes of one CTA (of one cluster): those of its template, and the runs of its repeated loop bodies that are under way.
//
// A run begins to exist when the first edge reaches it and makes room for another when its last node has completed, so that
// memory does not grow with the trips of a loop.
#pragma once
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

// One node of an instance. Small, because there are many and the one that an edge leads to is seldom in the cache: a time is kept
// only as long as it is needed.
struct NodeState {
  Tick ordered;          // when program order reached it, then when it became ready
  Tick when;             // the latest release so far (it may lie in the future), then first service, then the end of the warps' part
  std::int32_t missing;  // unreleased incoming edges
  std::int32_t at, run;  // node of the template; which run of its loop body
  std::int8_t stage, subop, reason;  // reason of the latest release

  // One edge is released at `now`; true if it was the last one missing.
  bool arrive(std::uint8_t why, Tick now) {
    if (why == kProgramOrder) ordered = now;
    if (now >= when) {
      when = now;
      reason = static_cast<std::int8_t>(why);
    }
    return --missing <= 0;
  }
  // It has not been served yet.
  bool waits() const { return missing > 0 || when == kNever; }
};
static_assert(sizeof(NodeState) == 32);

class Nodes {
 public:
  // Begin anew with `fresh`, the nodes of `t` before anything happened. `columns` is the instance's row. Throws std::runtime_error
  // if there are more nodes than can be numbered.
  void start(const Template& t, const std::vector<NodeState>& fresh, const std::int64_t* columns);

  NodeState& operator[](std::int32_t node) { return states_[static_cast<std::size_t>(node)]; }
  const NodeState& operator[](std::int32_t node) const { return states_[static_cast<std::size_t>(node)]; }
  // Nodes that exist now, and all that the instance will execute.
  std::int32_t existing() const { return static_cast<std::int32_t>(states_.size()); }
  std::int64_t total() const { return total_; }
  std::int32_t times(std::int32_t repeat) const { return repeats_[static_cast<std::size_t>(repeat)].times; }
  // The newest run of a repeat that exists.
  std::int32_t newest(std::int32_t repeat) const { return repeats_[static_cast<std::size_t>(repeat)].newest; }

  // Node `at` of run `run` of `repeat`; the run begins to exist if it does not. -1 if it has completed.
  std::int32_t in_run(std::int32_t repeat, std::int32_t run, std::int32_t at) {
    if (run == 0) return at;
    Repeated& r = repeats_[static_cast<std::size_t>(repeat)];
    const Cell& cell = r.cells[static_cast<std::size_t>(run) & (r.cells.size() - 1)];
    const std::int32_t first = cell.run == run ? (cell.left > 0 ? cell.first : -1) : run <= r.newest ? -1 : begin_run(repeat, run);
    return first < 0 ? -1 : first + at - shape_->repeats[static_cast<std::size_t>(repeat)].first;
  }

  // The same for those who only look: -1 also if the run does not exist yet.
  std::int32_t find(std::int32_t repeat, std::int32_t run, std::int32_t at) const {
    if (run == 0) return at;
    const Repeated& r = repeats_[static_cast<std::size_t>(repeat)];
    const Cell& cell = r.cells[static_cast<std::size_t>(run) & (r.cells.size() - 1)];
    return cell.run == run && cell.left > 0 ? cell.first + at - shape_->repeats[static_cast<std::size_t>(repeat)].first : -1;
  }

  // An edge to node `at` of every run of `repeat` is released: runs to come will see it when they begin to exist.
  void release_later(std::int32_t repeat, std::int32_t at, std::uint8_t reason, Tick when) {
    repeats_[static_cast<std::size_t>(repeat)].early.push_back({at, reason, when});
  }

  // A node of run `run` has completed.
  void leave(std::int32_t repeat, std::int32_t run) {
    Repeated& r = repeats_[static_cast<std::size_t>(repeat)];
    Cell& cell = r.cells[static_cast<std::size_t>(run) & (r.cells.size() - 1)];
    if (--cell.left == 0) r.unused.push_back(cell.first);
  }

 private:
  struct Cell {
    std::int32_t run = -1, first = 0, left = 0;  // which run, its first node, nodes that have not completed
  };
  struct Early {
    std::int32_t at;
    std::uint8_t reason;
    Tick when;
  };
  struct Repeated {
    std::int32_t times = 1, newest = 0;
    std::vector<Cell> cells;          // a ring: run r is at r modulo its size
    std::vector<std::int32_t> unused;  // first nodes of cells that completed
    std::vector<Early> early;
  };

  std::int32_t begin_run(std::int32_t repeat, std::int32_t run);

  const Template* shape_ = nullptr;
  const std::vector<NodeState>* fresh_ = nullptr;
  std::vector<NodeState> states_;
  std::vector<Repeated> repeats_;
  std::int64_t total_ = 0;
};

}  // namespace gtsim
