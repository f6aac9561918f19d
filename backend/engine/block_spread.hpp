// How the lines of a block of a tensor spread over the slices of the L2, for runs of lines.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "l2_hash.hpp"
#include "program.hpp"
#include "servers.hpp"
#include "window.hpp"

namespace gtsim {

// A hash of all address bits spreads any block evenly. With the low bits alone, a block whose rows lie a multiple of many slices
// apart falls on few of them; blocks that start at the same slice spread alike.
class BlockSpread {
 public:
  explicit BlockSpread(const Program& program)
      : tensors_(program.tensors), line_(program.machine.line_bytes), slices_(program.machine.l2_config.slices),
        hash_{program.machine.l2_config.slices, program.machine.l2_config.partitions, program.machine.l2_config.folded_hash} {}

  bool even() const { return hash_.folded; }

  struct Share {
    std::int32_t at;
    std::int64_t lines;
  };
  struct Shares {
    std::vector<Share> slices, groups;
    std::int64_t lines = 0;
  };

  // Of the block with this key; not for an even hash.
  const Shares& of(std::uint64_t key) {
    const Block block = block_of(key);
    std::int64_t extents = 0;
    const Tensor& tensor = tensors_[static_cast<std::size_t>(block.tensor)];
    for (int d = 0; d < tensor.rank; ++d) extents = extents * (tensor.block[static_cast<std::size_t>(d)] + 1) + block.extent[static_cast<std::size_t>(d)];
    const std::int64_t phase = block.address % (slices_ * line_);
    auto [found, fresh] = known_.try_emplace({block.tensor, phase, extents});
    if (fresh) count(block, phase, found->second);
    return found->second;
  }

  // Blocks of a tensor; their keys count up from `first_key`.
  std::int64_t blocks(std::int32_t tensor) const {
    const Tensor& t = tensors_[static_cast<std::size_t>(tensor)];
    std::int64_t count = 1;
    for (std::size_t d = 0; d < t.shape.size(); ++d) count *= (t.shape[d] + t.block[d] - 1) / t.block[d];
    return count;
  }
  static std::uint64_t first_key(std::int32_t tensor) { return static_cast<std::uint64_t>(tensor) << 48; }
  std::int64_t bytes(std::uint64_t key) const {
    const Block block = block_of(key);
    const Tensor& tensor = tensors_[static_cast<std::size_t>(block.tensor)];
    std::int64_t elements = 1;
    for (int d = 0; d < tensor.rank; ++d) elements *= block.extent[static_cast<std::size_t>(d)];
    return (elements * tensor.element_bits + 7) / 8;
  }

  // Of its first byte.
  std::int64_t address(std::uint64_t key) const { return block_of(key).address; }

  // Where the first line of the block lives.
  std::int32_t partition(std::uint64_t key) const { return hash_.home(static_cast<std::uint64_t>(block_of(key).address / line_)).partition; }

  static constexpr int kMaxRank = 8;
  struct Block {
    std::int64_t tensor, address;
    std::array<std::int64_t, kMaxRank> extent;  // elements
  };

  // The inverse of the keys of `expand`: the tensor in the upper bits, below them the index of the block in it.
  Block block_of(std::uint64_t key) const {
    Block block{static_cast<std::int64_t>(key >> 48), 0, {}};
    const Tensor& tensor = tensors_[static_cast<std::size_t>(block.tensor)];
    auto left = static_cast<std::int64_t>(key & ((std::uint64_t{1} << 48) - 1));
    block.address = tensor.base;
    for (int d = tensor.rank - 1; d >= 0; --d) {
      const auto ds = static_cast<std::size_t>(d);
      const std::int64_t count = (tensor.shape[ds] + tensor.block[ds] - 1) / tensor.block[ds];
      const std::int64_t from = left % count * tensor.block[ds];
      left /= count;
      block.extent[ds] = std::min(tensor.block[ds], tensor.shape[ds] - from);
      block.address += from * tensor.stride_bytes[ds];
    }
    return block;
  }

 private:
  void count(const Block& block, std::int64_t phase, Shares& out) const {
    const Tensor& tensor = tensors_[static_cast<std::size_t>(block.tensor)];
    const int last = tensor.rank - 1;
    const std::int64_t element = std::max(tensor.element_bits / 8, 1);
    const bool rows = tensor.stride_bytes[static_cast<std::size_t>(last)] == element;
    const std::int64_t bytes = rows ? std::max<std::int64_t>(block.extent[static_cast<std::size_t>(last)] * tensor.element_bits / 8, 1) : element;
    std::vector<std::int64_t> slices(static_cast<std::size_t>(slices_)), groups(static_cast<std::size_t>(hash_.groups));
    std::array<std::int64_t, kMaxRank> at{};
    for (;;) {
      std::int64_t address = phase;
      for (int d = 0; d <= last; ++d) address += at[static_cast<std::size_t>(d)] * tensor.stride_bytes[static_cast<std::size_t>(d)];
      for (std::int64_t line = address / line_; line * line_ < address + bytes; ++line) {
        const L2Hash::Home home = hash_.home(static_cast<std::uint64_t>(line));
        ++slices[static_cast<std::size_t>(home.partition * hash_.groups + home.group)];
        ++groups[static_cast<std::size_t>(home.group)];
        ++out.lines;
      }
      int d = rows ? last - 1 : last;
      while (d >= 0 && ++at[static_cast<std::size_t>(d)] == block.extent[static_cast<std::size_t>(d)]) at[static_cast<std::size_t>(d--)] = 0;
      if (d < 0) break;
    }
    for (std::size_t i = 0; i < slices.size(); ++i)
      if (slices[i] > 0) out.slices.push_back({static_cast<std::int32_t>(i), slices[i]});
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (groups[i] > 0) out.groups.push_back({static_cast<std::int32_t>(i), groups[i]});
  }

  const std::vector<Tensor>& tensors_;
  std::int64_t line_, slices_;
  L2Hash hash_;
  std::map<std::array<std::int64_t, 3>, Shares> known_;
};

// The bandwidth of all slices, in one direction.
class SliceServers {
 public:
  SliceServers(const Machine& machine, BlockSpread& spread, const Use& use, std::int64_t q16)
      : spread_(spread), use_(use), q16_(q16), slices_(machine.l2_config.slices) {
    if (!spread.even()) free_.assign(static_cast<std::size_t>(slices_), 0);
  }

  // `bytes` of the block with this key, asked for at `now` and not served before `begin`: what comes behind waits too.
  Window serve(Servers& servers, std::uint64_t key, std::int64_t bytes, Tick now, Tick begin) {
    const Tick work = scaled(bytes, q16_);
    if (spread_.even()) {
      if (begin > now) servers.add_queued(use_.resource, begin - now);
      const Tick start = servers.reserve(use_, 0, begin, work);
      return {start, start + work};
    }
    Window window{kNever, begin};
    const BlockSpread::Shares& shares = spread_.of(key);
    for (const BlockSpread::Share& share : shares.slices) {
      Tick& free = free_[static_cast<std::size_t>(share.at)];
      const Tick start = std::max(begin, free);
      free = start + scaled(bytes * share.lines / shares.lines, q16_ * slices_);
      window = {std::min(window.first, start), std::max(window.last, free)};
    }
    servers.add_busy(use_.resource, work);
    servers.add_queued(use_.resource, window.first - now);
    return window;
  }

 private:
  BlockSpread& spread_;
  Use use_;
  std::int64_t q16_, slices_;
  std::vector<Tick> free_;  // [slices], where blocks do not spread evenly
};

}  // namespace gtsim
