// Where a line of memory lives: which slice of the L2, in which partition, behind which group of slices.
#pragma once
#include <cstdint>

namespace gtsim {

// Slices with the same number in each partition form a group: they keep copies of each other's lines, and share the DRAM
// channels behind them. Nothing that happens in one group changes the state of another.
struct L2Hash {
  std::int32_t groups, partitions;
  bool folded;  // XOR of all address bits, five apart; otherwise the low bits alone decide

  struct Home {
    std::int32_t group, partition;
  };
  // `line` is an address over the size of a line.
  Home home(std::uint64_t line) const {
    if (folded) {
      line ^= line >> 5;
      line ^= line >> 10;
      line ^= line >> 20;
    }
    const auto slice = static_cast<std::int32_t>(line % static_cast<std::uint64_t>(groups * partitions));
    return {slice % groups, slice / groups};
  }
};

}  // namespace gtsim
