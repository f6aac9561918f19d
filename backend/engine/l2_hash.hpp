// Where a line of memory lives: which slice of the L2, in which partition, behind which group of slices.
#pragma once
#include <cstdint>

namespace gtsim {

// Slices with the same number in each partition form a group: they keep copies of each other's lines, and share the DRAM
// channels behind them. Nothing that happens in one group changes the state of another.
struct L2Hash {
  L2Hash(std::int32_t slices, std::int32_t partitions_of_chip, bool fold)
      : groups(slices / partitions_of_chip), partitions(partitions_of_chip), folded(fold),
        slices_(static_cast<std::uint64_t>(groups) * static_cast<std::uint64_t>(partitions)), inverse_(~std::uint64_t{0} / slices_) {}

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
    __extension__ using Wide = unsigned __int128;
    std::uint64_t slice = line - static_cast<std::uint64_t>((static_cast<Wide>(line) * inverse_) >> 64) * slices_;
    while (slice >= slices_) slice -= slices_;  // the quotient may be one or two too small
    Home at{static_cast<std::int32_t>(slice), 0};
    for (; at.group >= groups; ++at.partition) at.group -= groups;
    return at;
  }

 private:
  std::uint64_t slices_, inverse_;  // of all partitions; 2^64 over that
};

}  // namespace gtsim
