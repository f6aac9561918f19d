// The event engine: executes instances of templates on the resources of a machine, in windows of simulated time.
//
// Each SM is a shard (or those that share a resource are one together). Within a window, no longer than a message between an SM
// and the L2 takes, shards and memory system go on apart from each other; messages are delivered between windows, in a fixed order.
// How many threads execute the shards makes no difference to anything that is simulated.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "clusters.hpp"
#include "deadlock.hpp"
#include "memory_side.hpp"
#include "program.hpp"
#include "shard.hpp"

namespace gtsim {

class Engine {
 public:
  // `poll` is called now and then, on the calling thread, with the share of instances that are done; it may throw to stop the run.
  // `observed_sm` >= 0 records a span for every node that runs there.
  Engine(const Program& program, std::int32_t observed_sm, std::int32_t threads, std::function<void(double)> poll);
  Outcome run();

 private:
  // Counters when a whole number of periods had retired.
  struct Mark {
    Tick time;
    Traffic traffic;
    std::vector<Tick> busy, queued;
    Tick dram_busy;
    Stats nodes;
    std::vector<NetworkStats> networks;  // [GPCs]
  };
  // How many periods say how long those left out take, and how far a period may be from that; none: they do not say yet.
  struct Steady {
    std::size_t periods = 0;
    Tick error = 0;
  };
  static constexpr std::size_t kWatched = 32;   // periods that are watched
  static constexpr std::int32_t kKept = 2;      // whole periods that run behind those left out

  std::int32_t place_of(const Place& place) const { return place.sm * machine_.ctas_per_sm + place.slot; }
  Slot& slot_at(std::int32_t place) { return chip_.slots[static_cast<std::size_t>(place)]; }
  Slot& slot_at(const Place& place) { return slot_at(place_of(place)); }

  std::size_t shard_at(std::int32_t place) const { return static_cast<std::size_t>(shard_of_[static_cast<std::size_t>(place / machine_.ctas_per_sm)]); }

  void make_shards();
  void work(std::size_t thread, std::size_t task);
  const std::vector<std::size_t>& next_window();
  void balance();
  std::vector<std::int32_t> places() const;
  void launch();
  void arrange(Tick when, Shard::Kind kind, std::int32_t place, std::int32_t index);
  bool deliver();
  void ended(const ChipMessage& message);
  void at_grid_barrier(const ChipMessage& message);
  void place_clusters(Tick when);
  void member_ended(Slot& slot, Tick when);
  [[noreturn]] void report_deadlock() const;
  void watch_periods();
  void note_retired(Tick now);
  Mark mark(Tick now) const;
  std::size_t enough_periods() const;
  Steady equal_periods(std::int32_t times) const;
  Steady even_periods() const;
  void skip_periods(std::int32_t times, std::size_t periods);
  Outcome outcome();

  const Program& program_;
  const Machine& machine_;
  std::function<void(double)> poll_;
  Chip chip_;
  std::vector<std::int32_t> shard_of_;  // [SMs]
  std::deque<Shard> shards_;
  std::deque<MemorySide> memory_;
  std::vector<Stats> stats_;             // [threads]
  // The window: its end, which outboxes are written in it, when each task has its next event, who does what.
  Tick until_ = 0, window_ = 0;          // window_: its length
  int side_ = 0;
  bool catching_up_ = false;             // the window goes on for shards that had stopped
  std::vector<Tick> next_;               // [tasks: parts of the memory system, then the shards]
  std::vector<std::size_t> first_task_;  // [threads + 1]
  // What each task says of itself, side by side, so that nobody has to look at those that were idle.
  std::vector<std::int64_t> events_, balanced_;  // [tasks] events, and those at the last balance
  std::vector<std::uint8_t> told_, sent_[2];     // [shards] there are messages to the chip; requests; [sides]
  std::int64_t windows_ = 0, polled_ = 0;

  ClusterPlacement placement_;
  std::deque<Cluster> clusters_;  // a deque: slots point to them
  std::vector<std::int32_t> free_clusters_;
  Tick dispatched_ = 0;  // when the chip can dispatch the next CTA of a cluster
  std::vector<ChipMessage> messages_;  // not heard yet
  std::vector<std::vector<ChipMessage>> grid_barriers_;  // the CTAs that have come to the n-th grid barrier
  std::int32_t next_instance_ = 0, finished_ = 0;
  std::int32_t period_ = 0;  // instances; 0: nothing is skipped (any more)
  std::deque<Mark> marks_;
};

}  // namespace gtsim
