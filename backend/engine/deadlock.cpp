// The watchdog: no event is left, yet CTAs have not finished. By then every node that began has also completed, so what an
// unfinished node waits for are its edges from other unfinished nodes.
#include "deadlock.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <set>

#include "engine.hpp"

namespace gtsim {

namespace {

constexpr std::size_t kGroups = 4, kNodes = 8, kEdges = 4;  // what is reported: kinds of CTAs, nodes of each, edges of each

// A node of a template and which run of its loop body.
struct Key {
  std::int32_t at, run;
  auto operator<=>(const Key&) const = default;
};

struct Incoming {
  std::int32_t source;
  const Edge* edge;
};

// The nodes of one instance that does not end, and what each waits for.
class Blocked {
 public:
  explicit Blocked(const Slot& slot) : t_(*slot.shape), nodes_(*slot.nodes), into_(static_cast<std::size_t>(t_.nodes)) {
    for (std::int32_t source = 0; source < t_.nodes; ++source) {
      const NodeInfo& info = t_.info[static_cast<std::size_t>(source)];
      for (std::int32_t e = info.edge_begin; e < info.edge_end; ++e) {
        const Edge& edge = t_.edges[static_cast<std::size_t>(e)];
        into_[static_cast<std::size_t>(edge.dst)].push_back({source, &edge});
      }
    }
  }

  // The first of those that exist; at = -1 if there is none.
  Key first() const {
    for (std::int32_t i = 0; i < nodes_.existing(); ++i)
      if (nodes_[i].waits()) return {nodes_[i].at, nodes_[i].run};
    return {-1, 0};
  }

  bool unfinished(Key key) const {
    const std::int32_t repeat = t_.info[static_cast<std::size_t>(key.at)].repeat;
    if (repeat >= 0 && key.run > nodes_.newest(repeat)) return true;
    const std::int32_t i = repeat < 0 ? key.at : nodes_.find(repeat, key.run, key.at);
    return i >= 0 && nodes_[i].waits();
  }

  std::int32_t missing(Key key) const {
    const NodeInfo& info = t_.info[static_cast<std::size_t>(key.at)];
    const std::int32_t i = info.repeat < 0 ? key.at : nodes_.find(info.repeat, key.run, key.at);
    return i < 0 ? info.in_degree : nodes_[i].missing;
  }

  // Edges into `key` from unfinished nodes, at most `kEdges`.
  std::vector<Deadlock::Edge> edges(Key key) const {
    std::vector<Deadlock::Edge> out;
    for (const auto& [source, edge] : into_[static_cast<std::size_t>(key.at)]) {
      std::int32_t first = 0, last = 0;  // runs of the source that the edge comes from
      switch (edge->mode) {
        case EdgeMode::kPlain: last = key.run == 0 ? 0 : -1; break;
        case EdgeMode::kSameRun: first = last = key.run; break;
        case EdgeMode::kNextRun: first = last = key.run - 1; break;
        case EdgeMode::kLastRun: first = last = nodes_.times(edge->repeat) - 1; break;
        case EdgeMode::kEachRun: last = nodes_.times(edge->repeat) - 1; break;
        case EdgeMode::kEveryRun: break;
      }
      for (std::int32_t run = std::max(first, 0); run <= last && out.size() < kEdges; ++run)
        if (unfinished({source, run})) out.push_back({source, run, edge->reason});
    }
    return out;
  }

 private:
  const Template& t_;
  const Nodes& nodes_;
  std::vector<std::vector<Incoming>> into_;  // [nodes]
};

// Why the instance of `slot` does not end: from its first unfinished node, follow what each waits for until the way comes back to
// itself or ends.
Deadlock::Group group_of(const Slot& slot) {
  const Blocked blocked(slot);
  Deadlock::Group group{false, 0, 0, {}};
  std::vector<Key> way;
  std::map<Key, std::ptrdiff_t> place;  // of a node in `way`
  for (Key key = blocked.first(); key.at >= 0;) {
    place[key] = static_cast<std::ptrdiff_t>(way.size());
    way.push_back(key);
    const std::vector<Deadlock::Edge> edges = blocked.edges(key);
    if (edges.empty()) {
      way.erase(way.begin(), way.end() - 1);
      break;
    }
    key = {edges[0].node, edges[0].run};
    if (const auto before = place.find(key); before != place.end()) {
      way.erase(way.begin(), way.begin() + before->second);
      group.circle = true;
      break;
    }
  }
  group.length = static_cast<std::int64_t>(way.size());
  way.resize(std::min(way.size(), kNodes));
  for (const Key key : way)
    group.nodes.push_back({slot.instance, slot.shape_index, key.at, key.run, blocked.missing(key), blocked.edges(key)});
  return group;
}

}  // namespace

void Engine::report_deadlock() const {
  std::map<std::int32_t, std::pair<const Slot*, std::int64_t>> stuck;  // by instance: where, and how many nodes have not completed
  for (const Slot& slot : chip_.slots)
    if (slot.instance >= 0 && slot.remaining > 0) {
      auto& [where, left] = stuck[slot.instance];
      where = &slot;
      left += slot.remaining;
    }
  std::vector<Deadlock::Group> groups;
  std::set<const Template*> seen;
  for (const auto& [instance, what] : stuck) {
    if (groups.size() == kGroups) break;
    if (!seen.insert(what.first->shape).second) continue;
    Deadlock::Group group = group_of(*what.first);
    group.blocked = what.second;
    if (!group.nodes.empty()) groups.push_back(std::move(group));
  }
  const auto total = static_cast<std::int32_t>(program_.instance_template.size());
  throw Deadlock("deadlock: " + std::to_string(total - finished_) + " of " + std::to_string(total) + " CTAs cannot finish", std::move(groups));
}

}  // namespace gtsim
