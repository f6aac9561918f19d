// The part of the engine's input that says what earlier kernels left in the L2.
#pragma once
#include <algorithm>
#include <cstdint>

#include "block_spread.hpp"
#include "input.hpp"
#include "l2_contents.hpp"
#include "limits.hpp"
#include "program.hpp"

namespace gtsim {

// Whether `e` is a block of the tensors of `p`, and no more of it is there than it has.
inline bool is_block(const L2Contents::Entry& e, const Program& p, const BlockSpread& spread) {
  const std::uint64_t tensor = e.key >> 48;
  if (tensor >= p.tensors.size() || p.tensors[tensor].rank < 1 || p.tensors[tensor].rank > BlockSpread::kMaxRank) return false;
  const auto index = static_cast<std::int64_t>(e.key & ((std::uint64_t{1} << 48) - 1));
  if (index >= spread.blocks(static_cast<std::int32_t>(tensor))) return false;
  const std::int64_t bytes = spread.bytes(e.key);
  return bytes <= 0x7FFFFFFF && e.there <= bytes && e.dirty <= bytes;
}

// Reads `l2` into `p`, whose machine and tensors are known.
inline void l2_of(const nb::dict& d, Program& p) {
  p.keep_l2 = integer(d, "keep") != 0;
  p.carried = integer(d, "carried") != 0;
  p.own_tensors = small(d, "own_tensors", 0, static_cast<std::int32_t>(std::min<std::size_t>(p.tensors.size(), 0xFFFF)));
  p.carried_into = vec<std::int32_t>(d, "carried_into");
  in_range(p.carried_into, 0, p.own_tensors, "carried_into");
  if (!p.carried) return;
  L2Contents& l2 = p.before;
  l2 = {vec<std::uint64_t>(d, "keys"), vec<std::int32_t>(d, "there"), vec<std::int32_t>(d, "dirty"), vec<std::uint32_t>(d, "copies"),
        vec<std::int64_t>(d, "foreign")};
  const Machine& m = p.machine;
  const std::size_t pairs = m.by_line ? static_cast<std::size_t>(m.l2_config.slices / m.l2_config.partitions) : 1;
  require(l2.there.size() == l2.keys.size() && l2.dirty.size() == l2.keys.size() && l2.copies.size() == l2.keys.size() &&
              l2.foreign.size() == 2 * pairs, "L2 contents");
  in_range(l2.foreign, 0, m.l2_capacity + 1, "L2 contents");
  const BlockSpread spread(p);
  for (const Tensor& t : p.tensors)
    for (std::size_t i = 0; i < t.shape.size(); ++i)
      require(t.shape[i] >= 0 && t.shape[i] <= kMostElements && t.stride_bytes[i] >= 0, "tensor");
  for (std::size_t i = 0; i < l2.keys.size(); ++i) {
    const L2Contents::Entry e = l2[i];
    require(e.dirty >= 0 && e.there >= 0 && (e.copies >> m.l2_config.partitions) == 0, "L2 contents");
    constexpr std::int32_t kSectors = 0xF;
    require(m.by_line ? e.there <= kSectors && e.dirty <= kSectors && e.key < std::uint64_t{1} << 60 : is_block(e, p, spread), "L2 contents");
  }
}

}  // namespace gtsim
