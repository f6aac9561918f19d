// Blocks of the L2, as one kernel cut its tensors, in terms of how the next one cuts its own.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "block_spread.hpp"
#include "program.hpp"

namespace gtsim {

class Recut {
 public:
  Recut(const Program& program, const BlockSpread& spread) : tensors_(program.tensors), own_(program.own_tensors), spread_(spread) {
    for (const std::int32_t t : program.carried_into) {
      Target target{t, tensors_[static_cast<std::size_t>(t)].base, end_of(t), {}};
      const Tensor& tensor = tensors_[static_cast<std::size_t>(t)];
      target.dims.resize(static_cast<std::size_t>(tensor.rank));
      std::iota(target.dims.begin(), target.dims.end(), 0);
      std::stable_sort(target.dims.begin(), target.dims.end(), [&](int a, int b) {
        return tensor.stride_bytes[static_cast<std::size_t>(a)] > tensor.stride_bytes[static_cast<std::size_t>(b)];
      });
      targets_.push_back(std::move(target));
    }
    std::stable_sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) { return a.base < b.base; });
    overlaps_.assign(tensors_.size(), false);
    for (std::size_t t = static_cast<std::size_t>(own_); t < tensors_.size(); ++t) {
      const std::int64_t end = end_of(static_cast<std::int32_t>(t));
      overlaps_[t] = std::any_of(targets_.begin(), targets_.end(), [&](const Target& o) { return o.base < end && tensors_[t].base < o.end; });
    }
  }

  // Whether the tensor of the block shares memory with one of the kernel's, but is cut in another way.
  bool needed(std::uint64_t key) const { return overlaps_[static_cast<std::size_t>(key >> 48)]; }

  // Calls `visit(key of a block of the kernel's tensors, bytes)` for every run of bytes of block `key` that lies in one.
  template <typename Visit>
  void each(std::uint64_t key, Visit visit) const {
    const BlockSpread::Block block = spread_.block_of(key);
    const Tensor& tensor = tensors_[static_cast<std::size_t>(block.tensor)];
    const int last = tensor.rank - 1;
    const std::int64_t element = std::max(tensor.element_bits / 8, 1);
    const bool dense = tensor.stride_bytes[static_cast<std::size_t>(last)] == element;
    const std::int64_t bytes = dense ? std::max<std::int64_t>(block.extent[static_cast<std::size_t>(last)] * tensor.element_bits / 8, 1) : element;
    std::array<std::int64_t, BlockSpread::kMaxRank> at{};
    for (;;) {
      std::int64_t address = block.address;
      for (int d = 0; d <= last; ++d) address += at[static_cast<std::size_t>(d)] * tensor.stride_bytes[static_cast<std::size_t>(d)];
      row(address, bytes, visit);
      int d = dense ? last - 1 : last;
      while (d >= 0 && ++at[static_cast<std::size_t>(d)] == block.extent[static_cast<std::size_t>(d)]) at[static_cast<std::size_t>(d--)] = 0;
      if (d < 0) return;
    }
  }

 private:
  struct Target {
    std::int32_t tensor;
    std::int64_t base, end;
    std::vector<int> dims;  // the largest stride first
  };

  std::int64_t end_of(std::int32_t tensor) const {
    const Tensor& t = tensors_[static_cast<std::size_t>(tensor)];
    std::int64_t end = t.base + std::max(t.element_bits / 8, 1);
    for (std::size_t d = 0; d < t.shape.size(); ++d) end += std::max<std::int64_t>(t.shape[d] - 1, 0) * t.stride_bytes[d];
    return end;
  }

  // Bytes [address, address + bytes), from one block of a target to the next.
  template <typename Visit>
  void row(std::int64_t address, std::int64_t bytes, Visit& visit) const {
    const std::int64_t end = address + bytes;
    for (const Target& target : targets_) {
      if (target.base >= end) return;
      std::int64_t at = std::max(address, target.base);
      while (at < std::min(end, target.end)) {
        std::uint64_t key = 0;
        const std::int64_t run = std::min(locate(target, at, key), std::min(end, target.end) - at);
        visit(key, run);
        at += run;
      }
      address = std::max(address, std::min(end, target.end));
    }
  }

  // The block at `address` of `target`; returns how many bytes in a row belong to it.
  std::int64_t locate(const Target& target, std::int64_t address, std::uint64_t& key) const {
    const Tensor& t = tensors_[static_cast<std::size_t>(target.tensor)];
    std::array<std::int64_t, BlockSpread::kMaxRank> index{};
    std::int64_t offset = address - t.base, run = 1;
    for (const int d : target.dims) {
      const auto ds = static_cast<std::size_t>(d);
      const std::int64_t stride = t.stride_bytes[ds];
      const bool packed = t.element_bits < 8 && stride == 1;
      const std::int64_t most = std::max<std::int64_t>(t.shape[ds] - 1, 0);
      const std::int64_t coordinate = std::min(most, packed ? offset * 8 / t.element_bits : stride > 0 ? offset / stride : 0);
      offset -= packed ? offset : coordinate * stride;
      index[ds] = coordinate / t.block[ds];
      // Along the innermost dimension a run ends with the block; between elements that are apart, with the element.
      const std::int64_t behind = std::min((index[ds] + 1) * t.block[ds], t.shape[ds]) - coordinate;
      if (d == target.dims.back()) run = packed ? std::max<std::int64_t>(behind * t.element_bits / 8, 1) : behind * stride - offset;
    }
    for (int d = 0; d < t.rank; ++d) {
      const auto ds = static_cast<std::size_t>(d);
      key = key * static_cast<std::uint64_t>((t.shape[ds] + t.block[ds] - 1) / t.block[ds]) + static_cast<std::uint64_t>(index[ds]);
    }
    key |= BlockSpread::first_key(target.tensor);
    return std::max<std::int64_t>(run, 32);  // between the rows of a tensor with gaps
  }

  const std::vector<Tensor>& tensors_;
  std::int32_t own_;
  const BlockSpread& spread_;
  std::vector<Target> targets_;
  std::vector<bool> overlaps_;  // [tensors]
};

}  // namespace gtsim
