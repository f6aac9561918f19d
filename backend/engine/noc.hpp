// The network between the SMs of one GPC: how long a message is under way, what it waits for, and where SMs are in it.
//
// crossbar: every way takes the same time, and nothing but the ports of the SMs is in the way.
// mesh: SM i of the GPC sits at row i / columns, column i % columns of a grid of routers. A message goes along its row first,
// then along the column of its target (dimension order). Each router on the way, the first and the last included, takes `hop`;
// a link between two routers passes one message at a time in each direction.
#pragma once
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace gtsim {

// How ranks of a cluster get their SMs among the free ones of a GPC.
enum class Placement : std::uint8_t {
  kOrder,     // by number
  kNaive,     // in an order that says nothing about where they are
  kTopology,  // close to each other
};

struct NetworkShape {
  bool mesh = false;
  std::int32_t columns = 1;
  Tick transit = 0, hop = 0;   // crossbar: one way; mesh: a router and the link behind it
  std::int64_t link_q16 = 0;   // ticks a byte on a link
  std::int32_t line_bytes = 128;  // bytes of a request, the unit of the statistics
  Placement placement = Placement::kOrder;
};

// Sums over requests. A message of n bytes counts as n / line_bytes requests, rounded up, one without data as one.
struct NetworkStats {
  std::int64_t requests = 0, bytes = 0, hops = 0;
  Tick residence = 0, link_wait = 0;  // from the first router to behind the last; how much of it was waiting for links
  Tick link_busy = 0;                 // summed over links
  NetworkStats& operator+=(const NetworkStats& other);
};

// Busy times of a link. A message takes the first gap that is long enough: one that was sent later but comes by earlier does not
// wait for one that is still on its way.
class Link {
 public:
  // Take the link for `work` from `at` on, or as soon as it is free; returns the start. Nothing before `now` is asked for again.
  Tick take(Tick at, Tick work, Tick now);

 private:
  struct Busy {
    Tick begin, end;
  };
  std::vector<Busy> busy_;  // in order, apart
};

class Noc {
 public:
  // The network of `sms` SMs from number `first` on.
  Noc(const NetworkShape& shape, std::int32_t first, std::int32_t sms);

  std::int32_t hops(std::int32_t from, std::int32_t to) const;
  // What an empty network takes from SM to SM, one way, and how much more than a crossbar that is.
  Tick transit(std::int32_t from, std::int32_t to) const;
  Tick detour(std::int32_t from, std::int32_t to) const { return transit(from, to) - shape_.transit; }
  // A message without data is under way: it waits for nothing.
  void signal(std::int32_t from, std::int32_t to, std::int64_t requests = 1);
  // `bytes` enter the network from `entered` on; returns when they would have left SM `from` if the links held up its port. Asked
  // for at `now`, which does not decrease.
  Tick send(std::int32_t from, std::int32_t to, std::int64_t bytes, Tick entered, Tick now);
  // Data that several SMs receive takes each link of their ways once: send it to one after the other, `again` behind the first.
  Tick send_again(std::int32_t from, std::int32_t to, std::int64_t bytes, Tick entered, Tick now);

  std::int64_t requests_of(std::int64_t bytes) const;
  std::int32_t links() const;
  // SM numbers in an order in which neighbours are close: along a Hilbert curve over the grid.
  std::vector<std::int32_t> compact_order() const;
  NetworkStats stats;

 private:
  std::int32_t next(std::int32_t at, std::int32_t target) const;  // the link that leads from router `at` towards `target`
  void count(std::int32_t from, std::int32_t to, std::int64_t bytes, std::int64_t requests, Tick waited);

  NetworkShape shape_;
  std::int32_t first_, sms_, rows_;
  std::vector<Link> links_;          // [routers][directions]
  std::vector<Tick> passed_;         // [links] when the head of the message under way has passed; -1: it does not come by
  std::vector<std::int32_t> tree_;   // the links where it does
};

}  // namespace gtsim
