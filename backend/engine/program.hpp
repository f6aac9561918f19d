// What the engine executes: resources, demands, templates and instances as flat arrays. No node-type names.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "l2_contents.hpp"
#include "noc.hpp"
#include "time.hpp"

namespace gtsim {

enum class Scope : std::uint8_t { kSubpartition, kSm, kTpc, kGpc, kChip };

// Work of one stage on one resource.
struct Use {
  std::int32_t resource;
  std::int32_t server;                 // the server of SM s is server + by_sm[s], see Servers
  const std::int32_t* by_sm;
  bool gates;                          // a warp stage starts only when it is free; else its work queues there
  std::int32_t width;                  // servers in a row, each of which takes the work
  std::int32_t peer;                   // it is on the SM of the CTA with this rank in the cluster; -1: on the node's own
  Tick piece, last;  // ticks of each piece of the stage, and of the last one, which takes the remainder
};

enum class StageKind : std::uint8_t {
  kWarp,    // executed by the warps: arbitrated by the issue scheduler, the warps go on when it ends
  kAsync,   // executed by a unit behind the warps' back, in the order of arrival
  kMemory,  // moves a tile between an SM and the memory system
};

struct Stage {
  StageKind kind;
  std::span<const Use> uses, remote;  // remote: on the SMs of other CTAs of the cluster
  Tick latency;          // after the work, before the next stage (or completion)
  std::int32_t subops;   // pieces that interleave with other nodes
  std::int32_t memory;   // index of the access, for kMemory
  std::int32_t queue;    // kAsync: stages of one queue of a CTA follow each other, piece by piece; -1: in none
  std::int32_t message;  // index of the message that it sends or fetches, or -1
};

// What a stage sends to another SM of the cluster, or fetches from there; data passes ports among the uses of the stage.
struct Message {
  std::int32_t peer;         // rank of the other CTA; -1: a signal to every other one
  std::int32_t port;         // the resource by which the data leaves an SM; -1: a signal, without data
  bool fetch;                // a request goes there, the data comes back
  std::int64_t piece, last;  // bytes of each piece of the stage, and of the last one
};

enum class Direction : std::uint8_t { kLoad, kStore, kAtomic };

// How a tile travels. `front` makes requests, `port` moves bytes between SM and L2, `sink` is the shared memory that the
// data enters or leaves, if any. `*_q16` are ticks a byte (a request) with 16 fractional bits.
struct MemoryAccess {
  Direction direction;
  bool merge_rows;             // rows that touch in memory make common requests (else a request never crosses a row)
  std::int32_t tile;           // which tile of the node
  std::int32_t pool;
  bool has_sink;
  Use front, port, sink;
  std::int64_t front_q16, port_q16, sink_q16;
  std::int32_t request_bytes;  // contiguous bytes of one request
  std::int32_t write_bytes;    // bytes that one write request takes on the port
  Tick launch;                 // before the first request
  std::int32_t needs;          // what the SM must have fetched first (FirstTouch); -1: nothing
  Tick fetch;                  // how long that takes
  std::uint64_t receivers;     // ranks of the other CTAs of the cluster at whose port and sink the data arrives too
};

struct Tensor {
  std::int64_t base;                   // byte address
  std::int32_t rank, element_bits;
  std::vector<std::int64_t> shape, stride_bytes, block;  // block: tile-cache granularity, elements
};

// What a node says to the kernels before and behind its own (programmatic dependent launch), and to the other CTAs of its grid.
enum class GridSignal : std::uint8_t {
  kNone,
  kTrigger,  // this CTA does not keep the next kernel from starting any longer
  kWait,     // not before the kernels before this one have completed
  kGrid,     // not before all CTAs of the grid have come as far
};

struct Demand {
  std::int32_t stage_begin, stage_end, warp_stages;  // the first `warp_stages` stages hold the warps
  GridSignal signal = GridSignal::kNone;
  bool free = false;  // it takes time, but no resource and no memory, and waits for nobody outside
  bool simple = false;  // one piece of warp work on its own SM, and no signal
};

struct NodeInfo {
  Demand demand;
  const Stage* stages;                           // of the demand
  std::int32_t in_degree;
  std::int32_t edge_begin, issue_end, edge_end;  // a node's issue edges stand first
  std::int32_t repeat;                           // the repeat it belongs to, or -1
};

// Which runs of a repeated loop body an edge connects.
enum class EdgeMode : std::uint8_t {
  kPlain,     // node to node; into a repeated node: into its first run
  kSameRun,   // within a run
  kNextRun,   // from a run to the next
  kLastRun,   // from the last run to a node behind
  kEachRun,   // from each run to a node behind
  kEveryRun,  // from a node in front to each run
};

struct Edge {
  std::int32_t dst;
  std::uint8_t reason;
  EdgeMode mode;
  std::int16_t repeat;  // whose runs they are
};

// Nodes [first, first + nodes) run `times` + the instance's value of `column` (if any) times.
struct Repeat {
  std::int32_t first, nodes, column;
  std::int64_t times;
  bool eager;  // some node waits for nothing within the loop: all runs exist from the start
};

// A node behind repeat `repeat` waits for `count` edges from each run.
struct EachRun {
  std::int32_t repeat, dst, count;
};

struct Template {
  std::int32_t nodes;
  std::vector<NodeInfo> info;  // [nodes]
  std::vector<Edge> edges;
  std::vector<std::int32_t> first;  // nodes without incoming edges, in the order in which they begin
  std::vector<std::int32_t> tile_ptr, tile_buffer, tile_column, tile_extent;
  std::vector<std::int64_t> tile_offset, tile_step;  // tile_step: from a run to the next; empty without repeats
  std::int32_t rank;
  std::vector<Repeat> repeats;
  std::vector<EachRun> each;
  std::vector<std::int8_t> cta;  // of launches with clusters: [nodes] rank of the CTA that executes it
};

inline constexpr int kPools = 2;
inline constexpr std::uint8_t kProgramOrder = 0;          // reason of an edge
inline constexpr std::size_t kSynchronisation = 4;        // what waiting for other CTAs and kernels counts as
inline constexpr std::int64_t kMaxNodes = 0x7FFFFFFF;     // that one instance executes

struct L2Config {
  std::int32_t slices, partitions;       // of the chip
  bool folded_hash;                      // all address bits choose the slice, not the low ones alone
  bool warm;                             // what the program reads is there when it starts
  bool remote_copy;                      // a line read from another partition takes a place in the reader's too
  std::int32_t mshr_per_slice;           // misses outstanding
  std::int32_t coalescer_sms;            // SMs whose reads are merged on the way; 1: none
  std::vector<std::int32_t> side;        // [SMs] the partition that is near
};

struct DramConfig {
  std::int32_t channels, banks, row_lines;  // banks of a channel, lines of a row of one bank
  Tick activate, precharge, row_cycle;
};

struct Machine {
  std::int32_t sms, subpartitions, ctas_per_sm, line_bytes, sector_bytes;
  std::int32_t cluster_size;                 // CTAs of an instance
  std::vector<std::int32_t> gpc_end;         // [GPCs] SMs of this GPC and of those before it
  NetworkShape network;                      // between the SMs of a GPC
  Use network_in;                            // the port by which multicasts over a mesh enter an SM
  std::int64_t network_in_q16;
  std::array<std::vector<std::int32_t>, 5> by_sm;  // [scopes][SMs]: where the servers of each SM are among those of a resource
  std::array<std::int32_t, 5> scope_size;          // [scopes] servers of a resource
  std::vector<Scope> scopes;                 // [resources]
  Use l2, l2_write;                                     // bandwidth of the L2
  std::int64_t l2_q16, l2_write_q16, dram_q16;          // ticks a byte
  std::int64_t dram_turn_q16;                // extra ticks a byte when reads and writes mix evenly
  std::int64_t l2_capacity;                  // bytes
  std::int64_t l2_foreign;                   // of them, modified by other programs before the start; the rest is theirs too
  Tick l2_near, l2_far, dram_latency;
  L2Config l2_config;
  DramConfig dram;
  std::array<std::int64_t, kPools> pool_lines;  // lines in flight an SM, a pool each
  std::int32_t first_touch_entries;          // things fetched once that an SM keeps
  Tick kernel_launch, cta_gap, cta_dispatch;
  Tick grid_wait;                            // when the kernels before this one have completed
  Tick grid_sync;                            // from the last CTA at a grid barrier until all go on
  std::vector<Tick> place_free;              // [ctas_per_sm, sms] when earlier kernels leave room for a CTA; empty: at once
  std::int32_t policy;                       // 0 greedy-then-oldest, 1 loose round-robin, 2 oldest first
  bool by_line;                              // one event a line instead of a run of lines
  std::int32_t chunk_lines, store_chunk_lines;  // lines that one event moves on the way into or out of an SM
  std::int32_t sequence_period;                 // instances after which the launch order repeats; 0: skip nothing
  std::int32_t steady_ctas;                     // instances that must have been watched
  std::int64_t steady_spread_ppm, steady_drift_ppm;  // how much periods of a steady state may differ
};

struct Program {
  Machine machine;
  std::vector<Tensor> tensors;
  std::vector<Use> uses;
  std::vector<Stage> stages;
  std::vector<MemoryAccess> memory;
  std::vector<Message> messages;
  std::vector<Demand> demands;
  std::vector<Template> templates;
  std::vector<std::int32_t> instance_template;
  std::vector<std::int64_t> columns;  // [instances, columns_width]
  std::int32_t columns_width = 0;
  // Sequences of kernels: what the one before left in the L2, and whether to tell what this one leaves. `tensors` holds those of the
  // kernel, then those that only the contents name; `carried_into` are the ones in global memory.
  std::int32_t own_tensors = 0;
  std::vector<std::int32_t> carried_into;
  bool carried = false, keep_l2 = false;
  L2Contents before;
};

inline constexpr int kReasons = 6;

struct Traffic {
  std::int64_t l2_read = 0, l2_written = 0, dram_read = 0, dram_written = 0, l2_hit = 0, l2_requests = 0, l2_coalesced = 0;
};
inline constexpr std::array kTrafficFields = {&Traffic::l2_read,      &Traffic::l2_written, &Traffic::dram_read,   &Traffic::dram_written,
                                              &Traffic::l2_hit, &Traffic::l2_requests, &Traffic::l2_coalesced};

struct NodeStats {
  std::array<Tick, kReasons> wait{};  // from program order to ready, by the reason of the last edge
  Tick queue = 0;                     // ready, waiting for a resource
  Tick service = 0;                   // from first service to the end of the warps' part
  Tick latency = 0;                   // from there to completion
  std::int64_t count = 0;

  void add(const NodeStats& other) {
    for (std::size_t w = 0; w < wait.size(); ++w) wait[w] += other.wait[w];
    queue += other.queue;
    service += other.service;
    latency += other.latency;
    count += other.count;
  }
};

struct Span {
  std::int32_t sm, instance, node, run;
  Tick ready, start, released, done;
};

struct Outcome {
  Tick end = 0;
  std::int64_t events = 0;
  Traffic traffic;
  NetworkStats network;
  std::int64_t network_links = 0;
  std::vector<Tick> busy, queued;                 // [resources]
  std::vector<std::vector<NodeStats>> nodes;      // [templates][nodes]
  std::vector<Span> spans;
  std::vector<Tick> instance_start, instance_end;  // [instances]
  std::int32_t skipped = 0;                        // instances left out
  Tick skipped_time = 0;                           // what they would have taken
  std::int64_t bound_ppm = 0;                      // how far what is left out may be from the periods it was judged by
  std::vector<Tick> instance_trigger, instance_wait;  // [instances] first trigger, first wait for earlier kernels; kNever: none
  std::vector<std::int32_t> instance_sm;           // [instances]
  L2Contents l2;                                   // what is left in the L2, if asked for
};

}  // namespace gtsim
