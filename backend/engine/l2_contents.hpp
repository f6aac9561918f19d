// What is in the L2 between two kernels of a sequence.
#pragma once
#include <cstdint>
#include <vector>

namespace gtsim {

// Blocks of tensors (lines, in `line`), the least recently used of each group of slices first.
struct L2Contents {
  struct Entry {
    std::uint64_t key;
    std::int32_t there, dirty;  // bytes that are there, and of them to write back; of a line the masks of its sectors
    std::uint32_t copies;       // other partitions that hold it too
  };
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> there, dirty;
  std::vector<std::uint32_t> copies;
  std::vector<std::int64_t> foreign;  // of other programs: bytes left and bytes written back, a pair a group (`line`), or one

  Entry operator[](std::size_t i) const { return {keys[i], there[i], dirty[i], copies[i]}; }
  void add(const Entry& entry) {
    keys.push_back(entry.key);
    there.push_back(entry.there);
    dirty.push_back(entry.dirty);
    copies.push_back(entry.copies);
  }
};

}  // namespace gtsim
