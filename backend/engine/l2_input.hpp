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

// Whether the blocks of `t` can be numbered, and none has more bytes than the engine counts.
inline bool can_be_cut(const Tensor& t) {
  if (t.rank < 1 || t.rank > BlockSpread::kMaxRank) return false;
  double blocks = 1, bits = t.element_bits;
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    const auto size = static_cast<double>(t.shape[d]), block = static_cast<double>(t.block[d]);
    blocks *= size / block + 1;
    bits *= std::min(size, block);
  }
  return blocks < 0x1p48 && bits < 0x1p34;
}

// Whether `e` is a block of the tensors of `p`, and no more of it is there than it has.
inline bool is_block(const L2Contents::Entry& e, const Program& p, const BlockSpread& spread) {
  const std::uint64_t tensor = e.key >> 48;
  if (tensor >= p.tensors.size() || !can_be_cut(p.tensors[tensor])) return false;
  const auto index = static_cast<std::int64_t>(e.key & ((std::uint64_t{1} << 48) - 1));
  if (index >= spread.blocks(static_cast<std::int32_t>(tensor))) return false;
  const std::int64_t bytes = spread.bytes(e.key);
  return e.there <= bytes && e.dirty <= bytes;
}

// Reads `l2` into `p`, which is known otherwise and within its limits.
inline void l2_of(const nb::dict& d, Program& p) {
  p.keep_l2 = integer(d, "keep") != 0;
  p.carried = integer(d, "carried") != 0;
  p.own_tensors = small(d, "own_tensors", 0, static_cast<std::int32_t>(p.tensors.size()));
  p.carried_into = vec<std::int32_t>(d, "carried_into");
  in_range(p.carried_into, 0, p.own_tensors, "carried_into");
  if (!p.carried) return;
  L2Contents& l2 = p.before;
  l2 = {vec<std::uint64_t>(d, "keys"), vec<std::int32_t>(d, "there"), vec<std::int32_t>(d, "dirty"), vec<std::uint32_t>(d, "copies"),
        vec<std::int64_t>(d, "foreign")};
  const Machine& m = p.machine;
  const std::size_t pairs = m.by_line ? static_cast<std::size_t>(m.l2_config.slices / m.l2_config.partitions) : 1;
  const std::size_t count = l2.keys.size();
  require(l2.there.size() == count && l2.dirty.size() == count && l2.copies.size() == count && l2.foreign.size() == 2 * pairs, "L2 contents");
  in_range(l2.foreign, 0, m.l2_capacity + 1, "L2 contents");
  for (const std::int32_t t : p.carried_into) require(can_be_cut(p.tensors[static_cast<std::size_t>(t)]), "carried_into");
  const BlockSpread spread(p);
  for (std::size_t i = 0; i < count; ++i) {
    const L2Contents::Entry e = l2[i];
    require(e.dirty >= 0 && e.there >= 0 && std::uint64_t{e.copies} >> m.l2_config.partitions == 0, "L2 contents");
    constexpr std::int32_t kSectors = 0xF;
    require(m.by_line ? e.there <= kSectors && e.dirty <= kSectors && e.key < std::uint64_t{1} << 54 : is_block(e, p, spread), "L2 contents");
  }
}

}  // namespace gtsim
