// Events in the order of (time, sequence number): same input, same order.
//
// A heap with four children a node. Every part of the engine has a queue of its own with some dozens of events, which stay in the
// cache; a timing wheel per part was measured to be slower (its buckets do not).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace gtsim {

// What happens, packed: 4 bits of kind, 20 of place (an SM or a place for a CTA), 40 of index.
struct Event {
  Tick time;
  std::uint64_t sequence, payload;

  static std::uint64_t pack(std::int32_t kind, std::int32_t place, std::int32_t index) {
    return static_cast<std::uint64_t>(kind) << 60 | static_cast<std::uint64_t>(place) << 40 | static_cast<std::uint64_t>(index);
  }
  std::int32_t kind() const { return static_cast<std::int32_t>(payload >> 60); }
  std::int32_t place() const { return static_cast<std::int32_t>(payload >> 40 & 0xFFFFF); }
  std::int32_t index() const { return static_cast<std::int32_t>(payload); }
};

inline constexpr std::int32_t kMaxPlaces = 0xFFFFF;

class EventQueue {
 public:
  // Time of the earliest event; kNever without one.
  Tick next() const { return heap_.empty() ? kNever : heap_.front().time; }

  void push(Tick time, std::uint64_t payload) {
    const std::uint64_t sequence = next_++;
    std::size_t at = heap_.size();
    heap_.emplace_back();
    while (at > 0) {
      const std::size_t parent = (at - 1) / 4;
      if (heap_[parent].time <= time) break;  // of two at the same time, the older one is in front
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = {time, sequence, payload};
  }

  // Remove the earliest event; there is one.
  Event pop() {
    const Event event = heap_.front(), last = heap_.back();
    heap_.pop_back();
    const std::size_t n = heap_.size();
    if (n == 0) return event;
    std::size_t at = 0;
    for (;;) {
      const std::size_t first = 4 * at + 1;
      if (first >= n) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + 4, n); ++child)
        if (before(heap_[child], heap_[least])) least = child;
      if (!before(heap_[least], last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return event;
  }

 private:
  static bool before(const Event& x, const Event& y) { return x.time != y.time ? x.time < y.time : x.sequence < y.sequence; }

  std::vector<Event> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace gtsim
