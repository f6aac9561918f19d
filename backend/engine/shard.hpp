// A shard: an SM, or some neighbouring ones, and all that happens there, executed apart from the rest of the chip for a window of time.
//
// Node life: blocked -> ready -> issued -> executing -> completed. Where the end of a step is known when it begins, its
// edges are released at once with the future time, which saves an event. A node runs the stages of its demand one after the
// other. Warp stages compete for issue slots and pipes of their sub-partitions under a scheduling policy; asynchronous
// stages queue at their unit; memory stages move a tile. Issue edges are released when the last warp stage ends,
// all others when the node completes.
//
// What leaves the shard: requests to the memory system and messages to the chip (a CTA has ended, a CTA is at a grid barrier). What
// comes in: answers of the memory system and events that the chip arranges. None of them takes effect within the window in which
// it was sent.
#pragma once
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "batch_queue.hpp"
#include "clusters.hpp"
#include "credits.hpp"
#include "event_queue.hpp"
#include "first_touch.hpp"
#include "l2_hash.hpp"
#include "noc.hpp"
#include "nodes.hpp"
#include "pieces.hpp"
#include "program.hpp"
#include "servers.hpp"

namespace gtsim {

// The CTAs of one cluster; they share its nodes.
struct Cluster {
  std::vector<Place> places;  // [ranks]
  Nodes nodes;
  std::int32_t id = 0, left = 0, instance = -1;  // left: CTAs that have not ended
};

// A place for a CTA on an SM, and the CTA there.
struct Slot {
  // Asynchronous stages of one queue that have pieces to place: the first one's turn it is, the others wait.
  struct Queue {
    std::int32_t queue;
    std::deque<std::int32_t> nodes;
  };
  std::int32_t sm = 0, index = 0;  // which place of which SM
  std::int32_t instance = -1, shape_index = 0;
  std::int64_t remaining = 0;  // nodes that have not completed
  Tick start = 0, end = 0;     // end: completion of the last node that has completed
  const Template* shape = nullptr;
  Nodes* nodes = nullptr;
  Cluster* cluster = nullptr;  // whose CTA this is
  std::int32_t grid_syncs = 0;  // grid barriers that the CTA has come to
  bool passing = false;         // it goes on from the last of them
  Nodes own;                    // what `nodes` points to, without clusters
  std::vector<Queue> queues;
};

// What a shard tells the chip.
struct ChipMessage {
  enum Kind : std::int32_t { kEnded, kAtGridBarrier };
  Tick when;
  std::int32_t place, node;
  Kind kind;
};

// Which part of the memory system serves a piece.
struct Route {
  explicit Route(const Machine& machine)
      : hash{machine.l2_config.slices, machine.l2_config.partitions, machine.l2_config.folded_hash},
        parts(machine.by_line ? static_cast<std::size_t>(std::min(hash.groups, kMostParts)) : 1) {}
  std::size_t of(const Piece& piece) const {
    return parts == 1 ? 0 : static_cast<std::size_t>(hash.home(piece.key).group) % parts;
  }

  static constexpr std::int32_t kMostParts = 8;
  L2Hash hash;
  std::size_t parts;
};

// What all shards share. Each touches only the parts of its own SMs and of the instances that run there.
struct Chip {
  const Program& program;
  const Machine& machine;
  std::int32_t observed_sm;  // >= 0: record a span for every node that runs there
  Tick forward;              // from an SM to the L2
  Route route;
  bool more = false;         // instances wait for a place
  std::vector<Tick> free;    // servers
  std::vector<Slot> slots;   // [SMs, places]
  std::vector<std::vector<NodeState>> fresh;  // [templates][nodes]: nodes before anything happened
  std::vector<Noc> networks;                  // [GPCs]
  Outcome outcome;                            // of it the arrays by instance
};

// Requests of one window.
struct Outbox {
  std::vector<Request> requests;
  Tick first = kNever;
  void clear() {
    requests.clear();
    first = kNever;
  }
};

using Stats = std::vector<std::vector<NodeStats>>;  // [templates][nodes]

class Shard {
 public:
  enum Kind : std::int32_t { kStart, kBegin, kStage, kIssue, kAsync, kReturn, kPump, kStore, kResume, kRetire };

  // SMs [first, end).
  Shard(Chip& chip, std::int32_t first, std::int32_t end);

  // Execute all events before `until`, counting into `stats` and sending to outbox `side`; returns the time of the next event or
  // request, kNever without.
  Tick run(Tick until, int side, Stats& stats);
  // Have an event happen; not in a window that has begun.
  void push(Tick when, Kind kind, std::int32_t place, std::int32_t index) { queue_.push(when, Event::pack(kind, place, index)); }
  void answer(const Answer& answer);
  // Whether there are requests in outbox `side`.
  bool sends(int side) const {
    return std::any_of(outbox[side].begin(), outbox[side].end(), [](const Outbox& box) { return !box.requests.empty(); });
  }
  // Time of the last event.
  Tick now() const { return now_; }

  std::vector<ChipMessage> messages;  // of the last window
  std::vector<Outbox> outbox[2];      // [sides][parts of the memory system]; one side is written while the other is read
  PiecePool pieces;
  Servers servers;
  std::int64_t events = 0;
  Tick end = 0;
  bool stopped = false;  // a CTA has ended, and the chip may start another within the window
  std::vector<Span> spans;

 private:
  struct Candidate {
    std::int32_t place, node;
    Tick since;      // ready for its next piece
    std::uint64_t age;
    std::int32_t blocked_on;
    const Stage* stage;
  };
  struct Pool {
    Credits loads, stores;
    std::deque<std::int32_t> loading, storing;  // transfers that wait for lines
    bool resumes = false;                       // an event will go on with those that store
    Tick pumps = 0;                             // when an event will go on with those that load
  };
  struct Sm {
    std::vector<Candidate> candidates;
    Tick next_issue = kNever;
    std::uint64_t last_age = ~std::uint64_t{0};
    std::array<Pool, kPools> pools;
    FirstTouch fetched;
  };
  struct Transfer {
    std::int32_t place, node, sm;
    std::int32_t left;         // loads: pieces whose data has not all come back
    std::int32_t next, chunk;  // the piece (stores: and its chunk) that leaves next
    const MemoryAccess* access;
    std::vector<Piece> pieces;
    Tick since, end;
  };
  struct Ready {
    std::int32_t place, node;
    Tick when;
  };

  static constexpr Tick kSoon = 16 * kTicksPerCycle;  // a request may wait so long in a unit's queue for its line

  Sm& core(std::int32_t sm) { return sms_[static_cast<std::size_t>(sm - first_)]; }
  std::int32_t place_of(const Slot& slot) const { return slot.sm * chip_.machine.ctas_per_sm + slot.index; }
  Slot& slot_at(std::int32_t place) { return chip_.slots[static_cast<std::size_t>(place)]; }
  Slot& slot_at(const Place& place) { return slot_at(place.sm * chip_.machine.ctas_per_sm + place.slot); }
  NodeStats& stats_of(const Slot& slot, const NodeState& state) {
    return (*stats_)[static_cast<std::size_t>(slot.shape_index)][static_cast<std::size_t>(state.at)];
  }
  static const NodeInfo& info_of(const Slot& slot, const NodeState& state) { return slot.shape->info[static_cast<std::size_t>(state.at)]; }
  static const Stage& stage_of(const Slot& slot, const NodeState& state) { return info_of(slot, state).stages[state.stage]; }

  Tick next() const { return std::min(queue_.next(), returns_.next()); }
  // Nothing else happens until `when`, which belongs to this window: what comes next then may do so at once, without an event.
  bool undisturbed(Tick when) const { return when < until_ && when < next() && !stopped && ready_.empty(); }
  void take_return();
  void handle(const Event& event);
  void start_instance(Slot& slot, std::int32_t instance);
  void start_cluster(Cluster& cluster);
  void begin_first(Slot& slot);
  void retire(Slot& slot, Tick when);
  // `node`s are indices of the slot's nodes. `when` may lie in the future: what follows from it then is arranged for that time.
  void release(Slot& slot, std::int32_t node, std::int32_t from, std::int32_t to, Tick when);
  void arrive(Slot& slot, std::int32_t node, std::uint8_t reason, Tick when);
  void drain();
  void begin(Slot& slot, std::int32_t node, Tick when);
  bool held(Slot& slot, std::int32_t node, GridSignal signal);
  void run_stage(Slot& slot, std::int32_t node, Tick when);
  void next_stage(Slot& slot, std::int32_t node, Tick when);
  void complete(Slot& slot, std::int32_t node, Tick when);
  void note_span(const Slot& slot, std::int32_t node, const NodeState& state, Tick done);
  void warp_work(Slot& slot, std::int32_t node, Tick start, Tick end);
  void warps_go_on(Slot& slot, std::int32_t node, Tick when);

  void compete(Slot& slot, std::int32_t node, const Stage& stage, Tick free, Tick when);
  void finish_simple(Slot& slot, std::int32_t node, const NodeInfo& info, Tick start, Tick end_time);
  void ended(Slot& slot, const NodeInfo& info, std::int32_t run, Tick when);

  void schedule_issue(std::int32_t sm, Tick when);
  Tick earliest(std::int32_t sm, const Stage& stage, std::int32_t* blocked_on);
  Tick occupy(Slot& slot, NodeState& state, const Stage& stage, Tick now);
  void arbitrate(std::int32_t sm, Tick now);
  void async_begin(Slot& slot, std::int32_t node, Tick now);
  void async_piece(Slot& slot, std::int32_t node, Tick now);
  Tick reserve_remote(const Stage& stage, const Slot& slot, bool last, Tick now);
  Tick reserve_everywhere(const Use& use, const PieceState& state, Tick now, Tick work);
  Noc& network_of(std::int32_t sm) {
    return chip_.networks[static_cast<std::size_t>(chip_.machine.by_sm[static_cast<std::size_t>(Scope::kGpc)][static_cast<std::size_t>(sm)])];
  }
  Tick latency_of(const Stage& stage, const Slot& slot);
  Tick detour(const Message& message, const Slot& slot);
  Tick multicast(const PieceState& state, Tick entered);
  Tick multicast_detour(const MemoryAccess& access, const Slot& slot);

  void start_transfer(Slot& slot, std::int32_t node, Tick when);
  void pump(std::int32_t sm, std::int32_t pool);
  void returned(std::int32_t piece, Tick now);
  Tick enter(const Use& use, const PieceState& state, Tick now, Tick work);
  void come_in(std::int32_t transfer, std::int32_t piece, Tick when);
  void store_chunk(std::int32_t transfer, Tick now);
  bool room(std::int32_t sm, std::int32_t pool, std::int32_t lines);
  void resume(std::int32_t sm, std::int32_t pool);
  void request(std::int32_t number, const Piece& piece, Tick when);
  std::int32_t new_transfer();

  Chip& chip_;
  const std::int32_t first_, end_;
  EventQueue queue_;
  BatchQueue<std::int32_t> returns_;  // pieces whose data begins to come back
  std::vector<Sm> sms_;
  Stats* stats_ = nullptr;
  std::vector<Outbox>* sent_ = nullptr;
  std::vector<Transfer> transfers_;
  std::vector<std::int32_t> free_transfers_;
  std::vector<Ready> ready_;
  std::vector<Ready> begun_;  // on the observed SM: nodes that have not completed, and when they began
  std::vector<Piece> scratch_;
  std::vector<std::vector<PieceCache>> piece_cache_;  // [templates][tiles]
  Tick now_ = 0, until_ = 0;
  std::uint64_t next_age_ = 0;
};

}  // namespace gtsim
