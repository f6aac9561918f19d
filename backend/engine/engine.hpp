// The event engine: executes instances of templates on the resources of a machine.
//
// Node life: blocked -> ready -> issued -> executing -> completed. Where the end of a step is known when it begins, its
// edges are released at once with the future time, which saves an event. A node runs the stages of its demand one after the
// other. Warp stages compete for issue slots and pipes of their sub-partitions under a scheduling policy; asynchronous
// stages queue at their unit; memory stages move a tile. Issue edges are released when the last warp stage ends,
// all others when the node completes.
#pragma once
#include <deque>
#include <functional>
#include <vector>

#include "clusters.hpp"
#include "event_queue.hpp"
#include "memory.hpp"
#include "program.hpp"
#include "servers.hpp"
#include "tiles.hpp"

namespace gtsim {

class Engine {
 public:
  // `poll` is called now and then with the share of instances that are done; it may throw to stop the run.
  // `observed_sm` >= 0 records a span for every node that runs there.
  Engine(const Program& program, std::int32_t observed_sm, std::function<void(double)> poll);
  Outcome run();

 private:
  enum Kind : std::int32_t { kStart, kBegin, kStage, kIssue, kAsync, kL2, kReturn, kDeposit, kPieceDone, kStore, kRetire };

  struct NodeState {
    Tick ordered;          // when program order reached it, then when it became ready
    Tick ready;            // the latest release so far; releases may lie in the future
    Tick begun, done;      // first service; end of the warps' part
    std::int32_t missing;  // unreleased incoming edges
    std::int16_t stage;
    std::int8_t subop, reason;  // reason of the latest release
    std::int32_t at, run;  // node of the template; which run of its loop body
  };
  // The nodes of an instance: of the template, then the further runs of each repeat.
  struct Nodes {
    std::vector<NodeState> states;
    std::vector<std::int32_t> base, times;  // [repeats]
  };
  // The CTAs of one cluster; they share its nodes.
  struct Cluster {
    std::vector<Place> places;  // [ranks]
    Nodes nodes;
    std::int32_t id = 0, left = 0, instance = -1;  // left: CTAs that have not ended
  };
  struct Slot {
    std::int32_t instance = -1, remaining = 0;
    Tick end = 0;  // completion of the last node that has completed
    const Template* shape = nullptr;
    NodeStats* stats = nullptr;  // of the template
    Tick start = 0;
    std::int32_t grid_syncs = 0;  // grid barriers that the CTA has come to
    bool passing = false;         // it goes on from the last of them
    NodeState* nodes = nullptr;                            // of the template, then the further runs of each repeat
    const std::int32_t *base = nullptr, *times = nullptr;  // [repeats]: where its further runs start, how often it runs
    Nodes own;                                             // what these point to, without clusters
    Cluster* cluster = nullptr;                            // whose CTA this is
    void use(Nodes& shared) {
      nodes = shared.states.data();
      base = shared.base.data();
      times = shared.times.data();
    }
    const NodeInfo& info(std::int32_t node) const {
      return shape->info[static_cast<std::size_t>(nodes[static_cast<std::size_t>(node)].at)];
    }
    NodeStats& stats_of(std::int32_t node) { return stats[nodes[static_cast<std::size_t>(node)].at]; }
    // Run `run` of node `at` of repeat `r`.
    std::int32_t in_run(std::int32_t r, std::int32_t run, std::int32_t at) const {
      const Repeat& repeat = shape->repeats[static_cast<std::size_t>(r)];
      return run == 0 ? at : base[static_cast<std::size_t>(r)] + (run - 1) * repeat.nodes + at - repeat.first;
    }
  };
  struct Candidate {
    std::int32_t slot, node;
    Tick since;      // ready for its next piece
    std::uint64_t age;
    std::int32_t blocked_on;
  };
  struct Wait {
    std::int32_t piece;
    Tick since;
  };
  struct Sm {
    std::vector<Slot> slots;
    std::vector<Candidate> candidates;
    Tick next_issue = kNever;
    std::uint64_t last_age = ~std::uint64_t{0};
    std::array<std::deque<Wait>, kPools> waiting;
    std::array<std::int64_t, kPools> in_flight{};
  };
  struct Transfer {
    std::int32_t sm, slot, node, left;  // left: pieces under way
    std::int32_t next, chunk;           // stores: the piece and chunk that leave next
    const MemoryAccess* access;
    std::vector<Piece> pieces;  // stores keep their pieces here
    Tick end;
  };
  struct PieceState {
    Piece piece;
    const MemoryAccess* access;
    std::int32_t transfer, sm, chunk, chunks;
    Tick first, last;  // window of its requests at the unit, later of its data at the SM
    Tick through;      // when the current chunk has passed the port
    std::int32_t part(std::int32_t amount) const {
      return chunks == 1 ? amount : chunk + 1 < chunks ? amount / chunks : amount - amount / chunks * (chunks - 1);
    }
  };

  std::vector<std::int32_t> places() const;
  void start_instance(std::int32_t sm, std::int32_t slot, std::int32_t instance, Tick now);
  void retire(std::int32_t sm, std::int32_t slot, Tick now);
  void add_runs(Nodes& nodes, const Template& t, std::int32_t instance) const;
  void place_clusters(Tick when);
  void start_cluster(Cluster& cluster, Tick now);
  void retire_member(std::int32_t sm, std::int32_t slot, Tick now);
  void watch_periods();
  void note_retired(Tick now);
  void skip_periods(std::int32_t times, Tick interval);
  Tick reserve_remote(const Stage& stage, const Slot& slot, bool last, Tick now);
  Tick reserve_everywhere(const Use& use, const PieceState& state, Tick now, Tick work);
  // `node`s are indices of the slot's nodes: those of the template and further runs.
  void release(std::int32_t sm, std::int32_t slot, std::int32_t node, std::int32_t from, std::int32_t to, Tick when);
  void arrive(std::int32_t sm, std::int32_t slot, std::int32_t node, std::uint8_t reason, Tick when);
  void drain(Tick now);
  void begin(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick now);
  // `when` may lie in the future: what follows from it then is arranged for that time.
  void run_stage(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick when);
  void next_stage(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick when);
  void complete(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick when);
  void warp_work(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick start, Tick end);
  void warps_go_on(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick when);
  void start_transfer(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick when);
  void schedule_issue(std::int32_t sm, Tick when);
  Tick occupy(std::int32_t sm, Slot& slot, std::int32_t node, const Stage& stage, Tick now);
  void arbitrate(std::int32_t sm, Tick now);
  void async_piece(std::int32_t sm, std::int32_t slot, std::int32_t node, Tick now);
  void pump(std::int32_t sm, std::int32_t pool, Tick now);
  void at_l2(std::int32_t piece, Tick now);
  void stored(std::int32_t piece, Tick now);
  void returned(std::int32_t piece, Tick now);
  void deposit(std::int32_t piece, Tick now);
  void piece_done(std::int32_t piece, Tick now);
  void store_piece(std::int32_t transfer, Tick now);
  Tick earliest(std::int32_t sm, const Stage& stage, std::int32_t* blocked_on);
  const Stage& stage_of(const Slot& slot, std::int32_t node) const;
  std::int32_t new_transfer();
  std::int32_t new_piece();

  struct Ready {
    std::int32_t sm, slot, node;
  };
  // Counters when a whole number of periods had retired.
  struct Mark {
    Tick time;
    Traffic traffic;
    std::vector<Tick> busy, queued;
    Tick dram_busy;
    std::vector<std::vector<NodeStats>> nodes;
  };
  static constexpr std::size_t kIntervals = 4;  // periods that must take the same time
  static constexpr std::size_t kWatched = 12;   // periods whose trend is watched
  static constexpr std::int32_t kKept = 2;      // whole periods that run behind those left out
  struct Arrival {
    Ready at;
    Tick when;
  };
  bool held(std::int32_t sm, std::int32_t slot, std::int32_t node, GridSignal signal, Tick now);

  const Program& program_;
  const Machine& machine_;
  const std::int32_t observed_sm_;
  std::function<void(double)> poll_;
  EventQueue queue_;
  Servers servers_;
  Outcome outcome_;
  MemorySystem memory_;
  std::vector<Sm> sms_;
  ClusterPlacement placement_;
  std::deque<Cluster> clusters_;  // a deque: slots point to them
  std::vector<std::int32_t> free_clusters_;
  Tick dispatched_ = 0;  // when the chip can dispatch the next CTA of a cluster
  std::vector<std::vector<NodeState>> fresh_;  // [templates][nodes]: nodes before anything happened
  std::vector<Transfer> transfers_;
  std::vector<PieceState> pieces_;
  std::vector<std::int32_t> free_transfers_, free_pieces_;
  std::vector<Ready> ready_;
  std::vector<std::vector<Arrival>> grid_barriers_;  // the CTAs that have come to the n-th grid barrier
  std::vector<Piece> scratch_;
  std::vector<std::vector<PieceCache>> piece_cache_;  // [templates][tiles]
  std::int32_t next_instance_ = 0, finished_ = 0;
  std::int32_t period_ = 0;  // instances; 0: nothing is skipped (any more)
  std::deque<Mark> marks_;
  Tick now_ = 0;
  std::uint64_t next_age_ = 0;
};

}  // namespace gtsim
