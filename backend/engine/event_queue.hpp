// A 4-ary min-heap of events ordered by (time, sequence number): same input, same order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace gtsim {

struct Event {
  Tick time;
  std::uint64_t sequence;
  std::int32_t kind, sm, a, b;
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::uint64_t pushed() const { return next_; }

  void push(Tick time, std::int32_t kind, std::int32_t sm, std::int32_t a, std::int32_t b) {
    const Event event{time, next_++, kind, sm, a, b};
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  Event pop() {
    const Event top = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t n = heap_.size();
    if (n > 0) {
      std::size_t at = 0;
      for (;;) {
        const std::size_t first = 4 * at + 1;
        if (first >= n) break;
        std::size_t best = first;
        const std::size_t stop = first + 4 < n ? first + 4 : n;
        for (std::size_t child = first + 1; child < stop; ++child)
          if (before(heap_[child], heap_[best])) best = child;
        if (!before(heap_[best], last)) break;
        heap_[at] = heap_[best];
        at = best;
      }
      heap_[at] = last;
    }
    return top;
  }

 private:
  static bool before(const Event& x, const Event& y) {
    return x.time != y.time ? x.time < y.time : x.sequence < y.sequence;
  }
  std::vector<Event> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace gtsim
