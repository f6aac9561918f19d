// Lines in flight of one pool, and when those that are known to end will have done so.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "time.hpp"

namespace gtsim {

class Credits {
 public:
  std::int64_t in_flight = 0;

  // Whether it is known of any when they end, and when the first of them do.
  bool ending() const { return first_ < ends_.size(); }
  Tick next() const { return ends_[first_].first; }

  // Those that have ended at `now` are not in flight any more.
  void settle(Tick now) {
    while (ending() && next() <= now) drop();
  }
  // The same for those that end first; returns when they do.
  Tick drop() {
    const auto [when, lines] = ends_[first_];
    in_flight -= lines;
    if (++first_ == ends_.size()) {
      ends_.clear();
      first_ = 0;
    }
    return when;
  }
  // So many end at `when`.
  void end(Tick when, std::int32_t lines) {
    if (first_ > kSlack && first_ * 2 > ends_.size()) {
      ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    const std::pair<Tick, std::int32_t> entry{when, lines};
    ends_.push_back(entry);
    std::size_t at = ends_.size() - 1;
    for (; at > first_ && entry < ends_[at - 1]; --at) ends_[at] = ends_[at - 1];
    ends_[at] = entry;
  }

 private:
  static constexpr std::size_t kSlack = 32;
  std::vector<std::pair<Tick, std::int32_t>> ends_;  // in order; they mostly come in it
  std::size_t first_ = 0;                            // those before are gone
};

}  // namespace gtsim
