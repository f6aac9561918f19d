// Events in the order of (time, sequence number): same input, same order.
//
// Every part of the engine has a queue of its own, most with a few events: the earliest stand in order in a short array, all others
// in a heap with four children a node. A timing wheel per part was measured to be slower (its buckets do not stay in the cache).
#pragma once
#include <algorithm>
#include <array>
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
  Tick next() const { return near_ > 0 ? soon_[near_ - 1].time : kNever; }

  // The number of an event that is kept elsewhere.
  std::uint64_t number() { return next_++; }
  // Of the earliest event; there is one.
  std::uint64_t next_number() const { return soon_[near_ - 1].sequence; }

  void push(Tick time, std::uint64_t payload) {
    const Event event{time, next_++, payload};
    if (near_ == kNear) spill();
    if (!later_.empty() && !before(event, later_.front())) return push_later(event);
    std::size_t at = near_++;
    for (; at > 0 && soon_[at - 1].time <= time; --at) soon_[at] = soon_[at - 1];  // of two at the same time, the older one goes first
    soon_[at] = event;
  }

  // Remove the earliest event; there is one.
  Event pop() {
    const Event event = soon_[--near_];
    if (near_ == 0 && !later_.empty()) refill();
    return event;
  }

 private:
  static constexpr std::size_t kNear = 24, kChildren = 4;

  static bool before(const Event& x, const Event& y) { return x.time != y.time ? x.time < y.time : x.sequence < y.sequence; }

  // The latest of those that are near go to the others.
  void spill() {
    constexpr std::size_t kKept = kNear / 2;
    for (std::size_t i = 0; i < kNear - kKept; ++i) push_later(soon_[i]);
    std::copy(soon_.begin() + (kNear - kKept), soon_.end(), soon_.begin());
    near_ = kKept;
  }

  void refill() {
    near_ = std::min(later_.size(), kNear / 4);
    for (std::size_t i = near_; i > 0; --i) soon_[i - 1] = pop_later();
  }

  void push_later(const Event& event) {
    std::size_t at = later_.size();
    later_.emplace_back();
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!before(event, later_[parent])) break;
      later_[at] = later_[parent];
      at = parent;
    }
    later_[at] = event;
  }

  Event pop_later() {
    const Event event = later_.front(), last = later_.back();
    later_.pop_back();
    const std::size_t n = later_.size();
    if (n == 0) return event;
    std::size_t at = 0;
    for (;;) {
      const std::size_t first = kChildren * at + 1;
      if (first >= n) break;
      std::size_t least = first;
      for (std::size_t child = first + 1; child < std::min(first + kChildren, n); ++child)
        if (before(later_[child], later_[least])) least = child;
      if (!before(later_[least], last)) break;
      later_[at] = later_[least];
      at = least;
    }
    later_[at] = last;
    return event;
  }

  std::size_t near_ = 0;
  std::array<Event, kNear> soon_;  // the earliest `near_` events, the earliest last
  std::vector<Event> later_;       // a heap of all others
  std::uint64_t next_ = 0;
};

}  // namespace gtsim
