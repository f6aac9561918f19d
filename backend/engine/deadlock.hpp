// What a run that came to a standstill reports: which nodes wait for ever, and for what.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace gtsim {

class Deadlock : public std::runtime_error {
 public:
  // An edge that was never released: from run `run` of node `node`.
  struct Edge {
    std::int32_t node, run, reason;
  };
  struct Node {
    std::int32_t instance, shape, node, run, missing;  // shape: index of the template; missing: unreleased edges
    std::vector<Edge> edges;                           // some of them; none for a node that is held at a grid barrier
  };
  // Blocked nodes of one instance: a circle, in the order in which they wait for each other, or the one that others wait for.
  struct Group {
    bool circle;
    std::int64_t blocked, length;  // unfinished nodes of the instance; nodes of the circle, of which `nodes` has the first few
    std::vector<Node> nodes;
  };

  Deadlock(const std::string& what, std::vector<Group> found) : std::runtime_error(what), groups(std::move(found)) {}

  std::vector<Group> groups;
};

}  // namespace gtsim
