// Python binding: flat arrays in, flat arrays out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "engine.hpp"
#include "input.hpp"
#include "l2_input.hpp"
#include "limits.hpp"
#include "machine_input.hpp"

namespace nb = nanobind;
using namespace gtsim;

namespace {

// The repeat of each node of `t`, or -1; reads and checks the repeats.
std::vector<std::int32_t> repeats_of(const nb::dict& d, const Program& p, Template& t) {
  const auto rows = vec<std::int64_t>(d, "repeats");  // rows of 4: first, nodes, times, column
  constexpr std::size_t kRepeatRow = 4;
  require(rows.size() % kRepeatRow == 0 && rows.size() / kRepeatRow <= 0x7FFF, "repeats");
  t.tile_step = vec<std::int64_t>(d, "tile_step");
  require(t.tile_step.size() == (rows.empty() ? 0 : t.tile_offset.size()), "tile_step");
  std::vector<std::int32_t> repeat(static_cast<std::size_t>(t.nodes), -1);
  std::int64_t behind = 0;
  for (std::size_t i = 0; i < rows.size(); i += kRepeatRow) {
    const std::int64_t first = rows[i], nodes = rows[i + 1], column = rows[i + 3];
    require(first >= behind && nodes > 0 && first + nodes <= t.nodes && column >= -1 && column < p.columns_width, "repeats");
    behind = first + nodes;
    const auto r = static_cast<std::int32_t>(t.repeats.size());
    for (std::int64_t n = first; n < behind; ++n) repeat[static_cast<std::size_t>(n)] = r;
    require(rows[i + 2] >= -kMostElements && rows[i + 2] <= kMostElements, "repeats");
    t.repeats.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(nodes), static_cast<std::int32_t>(column), rows[i + 2], false});
  }
  return repeat;
}

// Checks the modes of the edges and the number of edges into each node, and notes who waits for each run of a repeat.
void count_edges(Template& t, const std::vector<std::int32_t>& ptr, const std::vector<std::int32_t>& repeat,
                 const std::vector<std::int32_t>& in_degree) {
  std::vector<std::int32_t> degree(in_degree.size(), 0), first(in_degree.size(), 0), later(in_degree.size(), 0);
  std::vector<bool> waits(in_degree.size(), false);  // for another node of its loop body
  for (std::int32_t source = 0; source < t.nodes; ++source) {
    const std::int32_t from = repeat[static_cast<std::size_t>(source)];
    for (std::int32_t e = ptr[static_cast<std::size_t>(source)]; e < ptr[static_cast<std::size_t>(source) + 1]; ++e) {
      Edge& edge = t.edges[static_cast<std::size_t>(e)];
      const std::int32_t to = repeat[static_cast<std::size_t>(edge.dst)];
      const bool inside = from >= 0 && from == to, out = from >= 0 && to < 0, in = from < 0 && to >= 0;
      switch (edge.mode) {
        case EdgeMode::kPlain: require(from < 0, "edge_mode"); break;
        case EdgeMode::kSameRun:
        case EdgeMode::kNextRun: require(inside, "edge_mode"); break;
        case EdgeMode::kLastRun:
        case EdgeMode::kEachRun: require(out, "edge_mode"); break;
        case EdgeMode::kEveryRun: require(in, "edge_mode"); break;
        default: require(false, "edge_mode");
      }
      edge.repeat = static_cast<std::int16_t>(edge.mode == EdgeMode::kEveryRun ? to : from);
      if (edge.mode == EdgeMode::kSameRun || edge.mode == EdgeMode::kNextRun) waits[static_cast<std::size_t>(edge.dst)] = true;
      if (in && edge.mode == EdgeMode::kPlain) ++first[static_cast<std::size_t>(edge.dst)];
      if (edge.mode == EdgeMode::kNextRun) ++later[static_cast<std::size_t>(edge.dst)];
      if (edge.mode == EdgeMode::kEachRun) t.each.push_back({from, edge.dst, 1});
      if (edge.mode != EdgeMode::kNextRun) ++degree[static_cast<std::size_t>(edge.dst)];  // these stand for plain ones in front
    }
  }
  require(degree == in_degree, "in_degree");
  require(first == later, "the first run of a loop body and its further runs have different numbers of edges");
  for (Repeat& r : t.repeats) {
    const auto begin = waits.begin() + r.first;
    r.eager = !std::all_of(begin, begin + r.nodes, [](bool w) { return w; });
  }
}

Template template_of(const nb::dict& d, const Program& p) {
  Template t{};
  const auto demand_ids = vec<std::int32_t>(d, "demand");
  const auto in_degree = vec<std::int32_t>(d, "in_degree");
  const auto edge_ptr = vec<std::int32_t>(d, "edge_ptr");
  const auto issue_end = vec<std::int32_t>(d, "issue_end");
  const auto edge_dst = vec<std::int32_t>(d, "edge_dst");
  const auto edge_reason = vec<std::uint8_t>(d, "edge_reason");
  t.nodes = static_cast<std::int32_t>(demand_ids.size());
  t.tile_ptr = vec<std::int32_t>(d, "tile_ptr");
  t.tile_buffer = vec<std::int32_t>(d, "tile_buffer");
  t.tile_column = vec<std::int32_t>(d, "tile_column");
  t.tile_extent = vec<std::int32_t>(d, "tile_extent");
  t.tile_offset = vec<std::int64_t>(d, "tile_offset");
  t.rank = small(d, "rank", 0, 64);
  const auto n = static_cast<std::size_t>(t.nodes);
  const std::size_t tiles = t.tile_buffer.size() , rank = static_cast<std::size_t>(t.rank);
  require(t.nodes < kMaxNodes, "too many nodes in one template");
  require(n > 0 && in_degree.size() == n && issue_end.size() == n, "template arrays");
  index_array(edge_ptr, n, edge_dst.size(), "edge_ptr");
  index_array(t.tile_ptr, n, tiles, "tile_ptr");
  require(edge_reason.size() == edge_dst.size(), "edge_reason");
  require(t.tile_offset.size() == tiles * rank && t.tile_column.size() == tiles * rank && t.tile_extent.size() == tiles * rank, "tiles");
  in_range(demand_ids, 0, static_cast<std::int64_t>(p.demands.size()), "demand");
  in_range(edge_dst, 0, t.nodes, "edge_dst");
  in_range(edge_reason, 0, kReasons, "edge_reason");
  in_range(t.tile_buffer, 0, static_cast<std::int64_t>(p.tensors.size()), "tile_buffer");
  in_range(t.tile_column, -1, p.columns_width, "tile_column");
  const auto edge_mode = vec<std::uint8_t>(d, "edge_mode");
  require(edge_mode.size() == edge_dst.size(), "edge_mode");
  for (std::size_t e = 0; e < edge_dst.size(); ++e)
    t.edges.push_back({edge_dst[e], edge_reason[e], static_cast<EdgeMode>(edge_mode[e]), -1});
  const std::vector<std::int32_t> repeat = repeats_of(d, p, t);
  t.first = vec<std::int32_t>(d, "first");
  in_range(t.first, 0, t.nodes, "first");
  std::vector<std::int32_t> begins = t.first;
  std::sort(begins.begin(), begins.end());
  require(std::adjacent_find(begins.begin(), begins.end()) == begins.end() &&
              static_cast<std::ptrdiff_t>(begins.size()) == std::count(in_degree.begin(), in_degree.end(), 0) &&
              std::all_of(begins.begin(), begins.end(), [&](std::int32_t i) { return in_degree[static_cast<std::size_t>(i)] == 0; }),
          "first");
  count_edges(t, edge_ptr, repeat, in_degree);
  if (p.machine.cluster_size > 1) {
    t.cta = vec<std::int8_t>(d, "node_cta");
    require(t.cta.size() == n, "node_cta");
    in_range(t.cta, 0, p.machine.cluster_size, "node_cta");
  }
  for (std::size_t i = 0; i < n; ++i) {
    require(issue_end[i] >= edge_ptr[i] && issue_end[i] <= edge_ptr[i + 1], "issue_end");
    const Demand& demand = p.demands[static_cast<std::size_t>(demand_ids[i])];
    t.info.push_back({demand, p.stages.data() + demand.stage_begin, in_degree[i], edge_ptr[i], issue_end[i], edge_ptr[i + 1], repeat[i]});
    for (std::int32_t s = demand.stage_begin; s < demand.stage_end; ++s) {
      const Stage& stage = p.stages[static_cast<std::size_t>(s)];
      if (stage.kind != StageKind::kMemory) continue;
      const std::int32_t tile = p.memory[static_cast<std::size_t>(stage.memory)].tile;
      require(t.tile_ptr[i] + tile < t.tile_ptr[i + 1], "a memory stage names a tile that its node lacks");
      const auto buffer = static_cast<std::size_t>(t.tile_buffer[static_cast<std::size_t>(t.tile_ptr[i] + tile)]);
      require(p.tensors[buffer].rank > 0 && p.tensors[buffer].rank <= t.rank && p.tensors[buffer].rank <= 8, "tensor rank");
    }
  }
  return t;
}

Program program_of(const nb::dict& d) {
  Program p;
  p.machine = machine_of(part<nb::dict>(d, "machine"));
  const auto resources = static_cast<std::int64_t>(p.machine.scopes.size());
  for (nb::handle h : part<nb::list>(d, "tensors")) {
    const nb::dict td = entry(h, "tensors");
    Tensor t{};
    t.base = integer(td, "base");
    t.element_bits = small(td, "element_bits", 1, 1024);
    t.shape = vec<std::int64_t>(td, "shape");
    t.stride_bytes = vec<std::int64_t>(td, "stride_bytes");
    t.block = vec<std::int64_t>(td, "block");
    t.rank = static_cast<std::int32_t>(t.shape.size());
    require(t.stride_bytes.size() == t.shape.size() && t.block.size() == t.shape.size(), "tensor");
    in_range(t.block, 1, kMostElements + 1, "tensor block");
    p.tensors.push_back(std::move(t));
  }
  const auto use_resource = vec<std::int32_t>(d, "use_resource");
  const auto use_sub = vec<std::int32_t>(d, "use_sub");
  const auto use_peer = vec<std::int32_t>(d, "use_peer");
  const auto use_ticks = vec<std::int64_t>(d, "use_ticks");
  in_range(use_peer, -1, p.machine.cluster_size > 1 ? p.machine.cluster_size : 0, "use_peer");
  require(use_sub.size() == use_resource.size() && use_peer.size() == use_resource.size() && use_ticks.size() == use_resource.size(), "uses");
  in_range(use_resource, 0, resources, "use_resource");
  in_range(use_ticks, 0, kNever, "use_ticks");
  for (std::size_t i = 0; i < use_resource.size(); ++i) {
    const bool per_sub = p.machine.scopes[static_cast<std::size_t>(use_resource[i])] == Scope::kSubpartition;
    require(per_sub ? use_sub[i] >= 0 && use_sub[i] < p.machine.subpartitions : use_sub[i] == -1, "use_sub");
    p.uses.push_back(use_of(use_resource[i], use_sub[i], use_ticks[i], p.machine));
    p.uses.back().peer = use_peer[i];
    require(use_peer[i] < 0 || !per_sub, "use_peer");
  }
  const auto memory = vec<std::int64_t>(d, "memory");  // rows of 16
  constexpr std::size_t kMemoryRow = 16;
  require(memory.size() % kMemoryRow == 0, "memory");
  for (std::size_t i = 0; i < memory.size(); i += kMemoryRow) {
    const auto at = [&](std::size_t k) { return memory[i + k]; };
    const auto small = [&](std::size_t k) { return static_cast<std::int32_t>(memory[i + k]); };
    require(at(0) >= 0 && at(0) <= 2 && at(2) >= 0 && at(2) < kMostIndex && at(3) >= 0 && at(3) < resources && at(4) >= 0 && at(4) < resources &&
                at(5) >= -1 && at(5) < resources && at(6) >= 0 && at(6) < kPools && at(10) > 0 && at(10) <= kMostBytes && at(11) >= 0 && at(11) <= kMostBytes && at(12) >= 0 && at(13) >= 0 &&
                at(14) >= -1 && at(14) < kMostIndex && at(15) >= 0 && at(15) < kNever &&
                (at(13) == 0 || (at(0) == 0 && at(13) < std::int64_t{1} << std::min(p.machine.cluster_size, 62) && p.machine.cluster_size > 1)),
            "memory access");
    for (const std::size_t k : {std::size_t{3}, std::size_t{4}, std::size_t{5}})
      require(at(k) < 0 || p.machine.scopes[static_cast<std::size_t>(at(k))] != Scope::kSubpartition,
              "memory accesses cannot use sub-partition resources");
    const auto use = [&](std::size_t k) { return use_of(small(k), -1, 0, p.machine); };
    p.memory.push_back({static_cast<Direction>(at(0)), at(1) != 0, small(2), small(6), at(5) >= 0, use(3), use(4), use(5), at(7), at(8),
                        at(9), small(10), small(11), at(12), small(14), at(15), static_cast<std::uint64_t>(at(13))});
  }
  const auto messages = vec<std::int64_t>(d, "messages");  // rows of 4: rank, use of the port out, fetch, bytes
  constexpr std::size_t kMessageRow = 4;
  require(messages.size() % kMessageRow == 0, "messages");
  for (std::size_t i = 0; i < messages.size(); i += kMessageRow) {
    const std::int64_t peer = messages[i], out = messages[i + 1];
    require(p.machine.cluster_size > 1 && peer >= -1 && peer < p.machine.cluster_size && out >= -1 &&
                out < static_cast<std::int64_t>(p.uses.size()) && (out < 0 || peer >= 0) && messages[i + 3] >= 0,
            "messages");
    p.messages.push_back({static_cast<std::int32_t>(peer), static_cast<std::int32_t>(out), messages[i + 2] != 0, 0, messages[i + 3]});
  }
  const auto stages = vec<std::int64_t>(d, "stages");  // rows of 7
  std::int64_t cut = 0, sent = 0;  // uses and messages before these belong to earlier stages
  constexpr std::size_t kStageRow = 7;
  require(stages.size() % kStageRow == 0, "stages");
  for (std::size_t i = 0; i < stages.size(); i += kStageRow) {
    const auto at = [&](std::size_t k) { return stages[i + k]; };
    require(at(0) >= 0 && at(0) <= 2 && at(1) >= cut && at(1) <= at(2) && at(2) <= static_cast<std::int64_t>(p.uses.size()) &&
                at(3) >= 0 && at(4) > 0 && at(4) <= kMostPieces && (at(0) != 2 || (at(5) >= 0 && at(5) < static_cast<std::int64_t>(p.memory.size()))) &&
                (at(0) != 1 || (at(1) < at(2) && at(5) >= -1 && at(5) < std::int64_t{1} << 31)) && at(6) >= -1 && at(6) < static_cast<std::int64_t>(p.messages.size()),
            "stages");
    cut = at(2);
    if (at(6) >= 0) {  // a message belongs to one stage, too
      Message& message = p.messages[static_cast<std::size_t>(at(6))];
      const std::int32_t out = message.port;  // so far the index of a use
      require(at(6) == sent++ && at(0) != 2 && (out < 0 || (out >= at(1) && out < at(2))), "messages");
      if (out >= 0) {
        const Use& use = p.uses[static_cast<std::size_t>(out)];
        require((use.peer >= 0) == message.fetch && p.uses[static_cast<std::size_t>(at(2) - 1)].peer >= 0, "messages");
        message.port = use.resource;
      }
      message.piece = message.last / at(4);
      if (message.piece > p.machine.line_bytes) message.piece -= message.piece % p.machine.line_bytes;  // whole requests
      message.last -= message.piece * (at(4) - 1);
    }
    for (std::int64_t u = at(1); u < at(2); ++u) {  // cut into pieces; a use belongs to one stage
      Use& use = p.uses[static_cast<std::size_t>(u)];
      use.piece = use.last / at(4);
      use.last -= use.piece * (at(4) - 1);
    }
    const auto remote = std::find_if(p.uses.begin() + at(1), p.uses.begin() + at(2), [](const Use& use) { return use.peer >= 0; });
    require(std::all_of(remote, p.uses.begin() + at(2), [](const Use& use) { return use.peer >= 0; }), "uses of other SMs come last");
    const auto own_end = static_cast<std::int32_t>(remote - p.uses.begin());
    require(own_end > at(1) || own_end == at(2), "a stage on other SMs only");
    const std::size_t own = join(p.uses, static_cast<std::size_t>(at(1)), static_cast<std::size_t>(own_end));
    p.stages.push_back({static_cast<StageKind>(at(0)), {p.uses.data() + at(1), own}, {p.uses.data() + own_end, static_cast<std::size_t>(at(2) - own_end)},
                        at(3), static_cast<std::int32_t>(at(4)), at(0) == 2 ? static_cast<std::int32_t>(at(5)) : -1,
                        at(0) == 1 ? static_cast<std::int32_t>(at(5)) : -1, static_cast<std::int32_t>(at(6))});
  }
  const auto demands = vec<std::int32_t>(d, "demands");  // rows of 3
  const auto signals = vec<std::uint8_t>(d, "signals");
  require(demands.size() % 3 == 0 && signals.size() == demands.size() / 3, "demands");
  in_range(signals, 0, 4, "signals");
  for (std::size_t i = 0; i < demands.size(); i += 3) {
    require(demands[i] >= 0 && demands[i] <= demands[i + 1] && static_cast<std::size_t>(demands[i + 1]) <= p.stages.size() &&
                demands[i + 1] - demands[i] <= kMostStages && demands[i + 2] >= 0 && demands[i + 2] <= demands[i + 1] - demands[i],
            "demands");
    for (std::int32_t s = demands[i]; s < demands[i + 1]; ++s)
      require((p.stages[static_cast<std::size_t>(s)].kind == StageKind::kWarp) == (s - demands[i] < demands[i + 2]), "warp stages come first");
    const auto plain = [&](const Stage& stage) { return stage.kind == StageKind::kWarp && stage.uses.empty(); };
    const bool free = std::all_of(p.stages.begin() + demands[i], p.stages.begin() + demands[i + 1], plain);
    const auto signal = static_cast<GridSignal>(signals[i / 3]);
    const Stage* first = p.stages.data() + demands[i];
    const bool simple = demands[i + 1] == demands[i] + 1 && first->kind == StageKind::kWarp && first->subops == 1 && !first->uses.empty() &&
                        first->remote.empty() && first->message < 0;
    p.demands.push_back({demands[i], demands[i + 1], demands[i + 2], signal, free && signal == GridSignal::kNone, simple && signal == GridSignal::kNone});
  }
  p.instance_template = vec<std::int32_t>(d, "instance_template");
  require(p.instance_template.size() < static_cast<std::size_t>(kMaxNodes), "too many CTAs");
  p.columns = vec<std::int64_t>(d, "columns");
  p.columns_width = small(d, "columns_width", 0, kMostIndex);
  in_range(p.columns, -kMostElements, kMostElements + 1, "columns");
  require(p.columns.size() == p.instance_template.size() * static_cast<std::size_t>(p.columns_width), "columns");
  for (nb::handle h : part<nb::list>(d, "templates")) p.templates.push_back(template_of(entry(h, "templates"), p));
  in_range(p.instance_template, 0, static_cast<std::int64_t>(p.templates.size()), "instance_template");
  for (std::size_t i = 0; i < p.instance_template.size(); ++i)
    for (const Repeat& r : p.templates[static_cast<std::size_t>(p.instance_template[i])].repeats) {
      const std::size_t at = i * static_cast<std::size_t>(p.columns_width) + static_cast<std::size_t>(std::max(r.column, 0));
      const std::int64_t times = r.times + (r.column >= 0 ? p.columns[at] : 0);
      require(times >= 1 && times < kMaxNodes, "a loop body runs less than once or too often");
    }
  check_limits(p);
  l2_of(part<nb::dict>(d, "l2"), p);
  return p;
}

template <typename T>
nb::object array(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  nb::capsule owner(kept, [](void* v) noexcept { delete static_cast<std::vector<T>*>(v); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape, owner));
}

PyObject* deadlock_type = nullptr;  // _engine.Deadlock

// Raise _engine.Deadlock with an attribute `groups`: (circle, blocked, length, [(instance, template, node, run, missing,
// [(source node, its run, reason)])]), as in deadlock.hpp.
[[noreturn]] void raise(const Deadlock& deadlock) {
  nb::list groups;
  for (const Deadlock::Group& group : deadlock.groups) {
    nb::list nodes;
    for (const Deadlock::Node& n : group.nodes) {
      nb::list edges;
      for (const Deadlock::Edge& e : n.edges) edges.append(nb::make_tuple(e.node, e.run, e.reason));
      nodes.append(nb::make_tuple(n.instance, n.shape, n.node, n.run, n.missing, edges));
    }
    groups.append(nb::make_tuple(group.circle, group.blocked, group.length, nodes));
  }
  nb::object error = nb::handle(deadlock_type)(deadlock.what());
  error.attr("groups") = groups;
  PyErr_SetObject(deadlock_type, error.ptr());
  throw nb::python_error();
}

nb::dict run(const nb::dict& input, std::int32_t observed_sm, std::int32_t threads, nb::object progress) {
  const Program program = program_of(input);
  require(threads >= 1 && threads <= 256, "threads");
  const auto poll = [&](double done) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(done);
  };
  Outcome out;
  try {
    nb::gil_scoped_release release;
    out = Engine(program, observed_sm, threads, poll).run();
  } catch (const Deadlock& deadlock) {
    raise(deadlock);
  }
  nb::dict result;
  result["ticks"] = out.end;
  result["events"] = out.events;
  result["skipped"] = out.skipped;
  result["skipped_ticks"] = out.skipped_time;
  result["bound_ppm"] = out.bound_ppm;
  const Traffic& t = out.traffic;
  result["traffic"] = array<std::int64_t>({t.l2_read, t.l2_written, t.dram_read, t.dram_written, t.l2_hit, t.l2_requests, t.l2_coalesced}, {7});
  const NetworkStats& n = out.network;
  result["network"] = array<std::int64_t>({n.requests, n.bytes, n.hops, n.residence, n.link_busy, n.link_wait, out.network_links}, {7});
  const std::size_t resources = out.busy.size();
  result["busy"] = array(std::move(out.busy), {resources});
  result["queued"] = array(std::move(out.queued), {resources - 1});
  nb::list nodes;
  constexpr std::size_t kColumns = kReasons + 4;
  for (const auto& stats : out.nodes) {
    std::vector<std::int64_t> rows;
    rows.reserve(stats.size() * kColumns);
    for (const NodeStats& s : stats) {
      rows.insert(rows.end(), s.wait.begin(), s.wait.end());
      rows.insert(rows.end(), {s.queue, s.service, s.latency, s.count});
    }
    nodes.append(array(std::move(rows), {stats.size(), kColumns}));
  }
  result["nodes"] = nodes;
  std::vector<std::int64_t> spans;
  for (const Span& s : out.spans) spans.insert(spans.end(), {s.instance, s.node, s.run, s.ready, s.start, s.released, s.done});
  result["spans"] = array(std::move(spans), {out.spans.size(), 7});
  const std::size_t instances = out.instance_start.size();
  result["instance_start"] = array(std::move(out.instance_start), {instances});
  result["instance_end"] = array(std::move(out.instance_end), {instances});
  result["instance_trigger"] = array(std::move(out.instance_trigger), {instances});
  result["instance_wait"] = array(std::move(out.instance_wait), {instances});
  result["instance_sm"] = array(std::move(out.instance_sm), {instances});
  const std::size_t kept = out.l2.keys.size(), others = out.l2.foreign.size();
  result["l2_keys"] = array(std::move(out.l2.keys), {kept});
  result["l2_there"] = array(std::move(out.l2.there), {kept});
  result["l2_dirty"] = array(std::move(out.l2.dirty), {kept});
  result["l2_copies"] = array(std::move(out.l2.copies), {kept});
  result["l2_foreign"] = array(std::move(out.l2.foreign), {others});
  return result;
}

}  // namespace

NB_MODULE(_engine, m) {
  m.doc() = "Event engine of gtsim: executes tile graphs that were lowered to demands.";
  m.attr("TICKS_PER_CYCLE") = kTicksPerCycle;
  m.attr("REASONS") = kReasons;
  deadlock_type = PyErr_NewExceptionWithDoc("gtsim.backend._engine.Deadlock",
                                            "A run that came to a standstill; `groups` says which nodes wait for what.",
                                            PyExc_RuntimeError, nullptr);
  if (deadlock_type == nullptr) throw nb::python_error();
  m.attr("Deadlock") = nb::handle(deadlock_type);
  m.def("run", &run, nb::arg("program"), nb::arg("observed_sm") = -1, nb::arg("threads") = 1,
        nb::arg("progress") = nb::none(),
        "Execute a program (see backend/compile.py for its layout). Raises ValueError for inconsistent input, RuntimeError "
        "for a deadlock, KeyboardInterrupt on Ctrl-C.");
}
