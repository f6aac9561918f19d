// What other programs left in the L2: it is full of their lines, the oldest there are, and some of those are modified.
#pragma once
#include <algorithm>
#include <cstdint>

namespace gtsim {

class ForeignLines {
 public:
  // `dirty` of `capacity` bytes are modified, evenly among the others.
  ForeignLines(std::int64_t capacity, std::int64_t dirty) : capacity_(capacity), dirty_(dirty), left_(dirty > 0 ? capacity : 0) {}

  // How many bytes of others are left, and how many were written back.
  struct State {
    std::int64_t left, written;
  };
  State state() const { return {left_, written_}; }
  void restore(const State& state) {
    left_ = std::clamp<std::int64_t>(state.left, 0, capacity_);
    written_ = state.written;
  }

  // Our own lines take `used` bytes now. Returns the bytes of others to write back: they leave as room is needed.
  std::int64_t displace(std::int64_t used, std::int64_t granule) {
    if (left_ == 0) return 0;
    left_ = std::clamp<std::int64_t>(capacity_ - used, 0, left_);
    __extension__ using Wide = __int128;
    const auto owed = static_cast<std::int64_t>(static_cast<Wide>(capacity_ - left_) * dirty_ / capacity_);
    const std::int64_t bytes = owed - written_;
    if (bytes < granule && left_ > 0) return 0;
    written_ = owed;
    return bytes;
  }

 private:
  std::int64_t capacity_, dirty_, left_, written_ = 0;
};

}  // namespace gtsim
