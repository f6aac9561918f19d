// What an SM has to fetch before it can use it, such as the descriptor of a tensor map, and keeps from then on: the first use
// waits for it, later ones find it until others that were used since have driven it out.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "time.hpp"

namespace gtsim {

// Of one SM.
class FirstTouch {
 public:
  // `key` is used at `now` and takes `fetch` to get; how long the use waits for it. The SM keeps `entries` of them.
  Tick wait(std::int32_t key, Tick fetch, Tick now, std::size_t entries) {
    const auto found = std::find_if(kept_.begin(), kept_.end(), [key](const Entry& e) { return e.key == key; });
    if (found != kept_.end()) {
      std::rotate(found, found + 1, kept_.end());
      return std::max<Tick>(kept_.back().ready - now, 0);
    }
    if (kept_.size() == entries) kept_.erase(kept_.begin());
    kept_.push_back({key, now + fetch});
    return fetch;
  }

 private:
  struct Entry {
    std::int32_t key;
    Tick ready;
  };
  std::vector<Entry> kept_;  // the latest used stands last; they are few
};

}  // namespace gtsim
