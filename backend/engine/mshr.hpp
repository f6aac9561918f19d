// Misses outstanding: a miss that finds no free entry waits for the earliest to finish, and what is behind it waits too.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "time.hpp"

namespace gtsim {

// Entries of one slice, a line each.
class Mshr {
 public:
  explicit Mshr(std::int32_t entries) : entries_(static_cast<std::size_t>(entries)) {}

  // When a miss that comes at `now` has an entry; it is free again at the time that `hold` names next.
  Tick claim(Tick now) {
    if (until_.size() < entries_) return now;
    const Tick when = std::max(now, until_.front());
    std::pop_heap(until_.begin(), until_.end(), std::greater<>());
    until_.pop_back();
    return when;
  }
  void hold(Tick until) {
    until_.push_back(until);
    std::push_heap(until_.begin(), until_.end(), std::greater<>());
  }

 private:
  std::size_t entries_;
  std::vector<Tick> until_;  // a heap, the earliest first
};

// The entries of all slices, for runs of lines that spread over them; runs finish in the order in which they begin.
class MshrPool {
 public:
  explicit MshrPool(std::int64_t entries) : entries_(entries) {}

  Tick claim(Tick now, std::int64_t lines) {
    Tick when = now;
    while (!runs_.empty() && (runs_.front().until <= now || taken_ + lines > entries_)) {
      when = std::max(when, runs_.front().until);
      taken_ -= runs_.front().lines;
      runs_.pop_front();
    }
    return when;
  }
  void hold(Tick until, std::int64_t lines) {
    runs_.push_back({until, lines});
    taken_ += lines;
  }

 private:
  struct Run {
    Tick until;
    std::int64_t lines;
  };
  std::int64_t entries_, taken_ = 0;
  std::deque<Run> runs_;
};

}  // namespace gtsim
