// What comes in batches and leaves in the order of (time, sequence number): a batch is sorted once, which costs less than a heap and
// tells what comes next but one, so that it can be fetched into the cache.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "time.hpp"

namespace gtsim {

template <typename Item>
class BatchQueue {
 public:
  struct Entry {
    Tick time;
    std::uint64_t sequence;
    Item item;
  };

  void add(Tick time, std::uint64_t sequence, const Item& item) { entries_.push_back({time, sequence, item}); }

  // Put what was added since the last time in its place. To be called before those below.
  void settle() {
    const auto begin = entries_.begin(), added = begin + static_cast<std::ptrdiff_t>(settled_), first = begin + static_cast<std::ptrdiff_t>(first_);
    if (added == entries_.end()) return;
    std::sort(added, entries_.end(), before);
    if (first != added || first != begin) {
      merged_.resize(entries_.size() - first_);
      std::merge(first, added, added, entries_.end(), merged_.begin(), before);
      entries_.swap(merged_);
      first_ = 0;
    }
    settled_ = entries_.size();
  }

  // Time of the earliest; kNever without one.
  Tick next() const { return first_ < settled_ ? entries_[first_].time : kNever; }
  const Entry& front() const { return entries_[first_]; }
  // The one so many places behind the earliest, if there are so many.
  const Entry* ahead(std::size_t places) const { return first_ + places < settled_ ? &entries_[first_ + places] : nullptr; }

  void pop() {
    if (++first_ < entries_.size()) return;
    entries_.clear();
    first_ = settled_ = 0;
  }

 private:
  static bool before(const Entry& x, const Entry& y) { return x.time != y.time ? x.time < y.time : x.sequence < y.sequence; }

  std::vector<Entry> entries_, merged_;
  std::size_t first_ = 0, settled_ = 0;  // of `entries_`: those before are gone, those from there on were added since
};

}  // namespace gtsim
