// Events in the order of (time, sequence number): same input, same order.
//
// A timing wheel: events of the near future wait unsorted in buckets a cycle wide; only the bucket that is being
// served is a heap. Events beyond the wheel wait in an overflow heap until their turn of the wheel comes.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
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
  EventQueue() : buckets_(kBuckets, -1), used_(kBuckets / 64, 0) {}

  bool empty() const { return size_ == 0; }

  // Time of the earliest event; kNever without one.
  Tick next() {
    if (size_ == 0) return kNever;
    if (heap_.empty()) advance();
    return heap_.front().time;
  }

  // `time` must not lie before the last event popped.
  void push(Tick time, std::uint64_t payload) {
    const std::uint64_t sequence = next_++;
    ++size_;
    const std::int64_t bucket = time >> kWidthBits;
    if (bucket <= now_) {
      rise(time, sequence, payload);
    } else if (bucket < now_ + kBuckets) {
      put(bucket, time, sequence, payload);
    } else {
      if (time > kLatest) throw std::runtime_error("the run would take longer than 2^46 cycles");
      far_.emplace_back(time, sequence, payload);
      std::push_heap(far_.begin(), far_.end(), later);
    }
  }

  Event pop() {
    if (heap_.empty()) advance();
    const Event event = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    --size_;
    if (!heap_.empty()) sink(0, last);
    return event;
  }

 private:
  static constexpr int kWidthBits = kTickBits;    // a bucket is one cycle wide: a handful of events
  static constexpr std::int64_t kBuckets = 1024;  // power of two; longer than the usual memory latency

  static constexpr Tick kLatest = Tick{1} << (46 + kTickBits);

  static bool before(Tick t, std::uint64_t s, const Event& y) { return t != y.time ? t < y.time : s < y.sequence; }

  void rise(Tick time, std::uint64_t sequence, std::uint64_t payload) {
    std::size_t at = heap_.size();
    heap_.emplace_back(time, sequence, payload);
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (!before(time, sequence, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at].time = time;
    heap_[at].sequence = sequence;
    heap_[at].payload = payload;
  }

  void sink(std::size_t at, const Event& event) {
    const std::size_t n = heap_.size();
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= n) break;
      if (child + 1 < n && before(heap_[child + 1].time, heap_[child + 1].sequence, heap_[child])) ++child;
      if (!before(heap_[child].time, heap_[child].sequence, event)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = event;
  }

  static bool later(const Event& x, const Event& y) { return before(y.time, y.sequence, x); }

  // Events of the wheel live in one pool that is reused at once, so that it stays in the cache; a bucket is a list in it.
  struct Link {
    Event event;
    std::int32_t next;
  };

  void put(std::int64_t bucket, Tick time, std::uint64_t sequence, std::uint64_t payload) {
    const auto at = static_cast<std::size_t>(bucket & (kBuckets - 1));
    std::int32_t id = free_;
    if (id < 0) {
      id = static_cast<std::int32_t>(pool_.size());
      pool_.emplace_back();
    } else {
      free_ = pool_[static_cast<std::size_t>(id)].next;
    }
    Link& link = pool_[static_cast<std::size_t>(id)];
    link.event.time = time;
    link.event.sequence = sequence;
    link.event.payload = payload;
    link.next = buckets_[at];
    buckets_[at] = id;
    used_[at / 64] |= std::uint64_t{1} << (at % 64);
    ++wheeled_;
  }

  // The first bucket behind `now_` that holds events; there is one.
  std::int64_t nearest() const {
    const std::int64_t from = now_ + 1;
    const auto start = static_cast<std::size_t>(from & (kBuckets - 1));
    std::size_t word = start / 64;
    std::uint64_t bits = used_[word] >> (start % 64) << (start % 64);
    while (bits == 0) {
      word = (word + 1) % used_.size();
      bits = used_[word];
    }
    const auto at = static_cast<std::int64_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
    return from + ((at - static_cast<std::int64_t>(start)) & (kBuckets - 1));
  }

  void advance() {
    if (wheeled_ == 0) now_ = std::max(now_, (far_.front().time >> kWidthBits) - 1);  // nothing nearer: jump
    while (!far_.empty() && far_.front().time >> kWidthBits < now_ + kBuckets) {
      std::pop_heap(far_.begin(), far_.end(), later);
      const Event& event = far_.back();
      put(event.time >> kWidthBits, event.time, event.sequence, event.payload);
      far_.pop_back();
    }
    now_ = nearest();
    const auto at = static_cast<std::size_t>(now_ & (kBuckets - 1));
    std::int32_t& head = buckets_[at];
    used_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
    while (head >= 0) {
      Link& link = pool_[static_cast<std::size_t>(head)];
      rise(link.event.time, link.event.sequence, link.event.payload);
      const std::int32_t next = link.next;
      link.next = free_;
      free_ = head;
      head = next;
      --wheeled_;
    }
  }

  std::vector<std::int32_t> buckets_;  // first link, or -1
  std::vector<std::uint64_t> used_;    // a bit a bucket that holds events
  std::vector<Link> pool_;
  std::int32_t free_ = -1;
  std::vector<Event> heap_, far_;  // min-heaps: the bucket being served, what lies beyond the wheel
  std::int64_t now_ = -1;
  std::size_t size_ = 0, wheeled_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace gtsim
