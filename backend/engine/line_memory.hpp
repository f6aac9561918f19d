// The memory system line by line: every request belongs to one slice of the L2, every slice to a group with its own DRAM channels.
// Groups share nothing but counters.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "coalescer.hpp"
#include "dram.hpp"
#include "foreign.hpp"
#include "l2_cache.hpp"
#include "l2_hash.hpp"
#include "mshr.hpp"
#include "program.hpp"
#include "servers.hpp"
#include "tiles.hpp"
#include "window.hpp"

namespace gtsim {

class LineMemory {
 public:
  // Of groups `part`, `part` + `parts`, and so on.
  LineMemory(const Machine& machine, Servers& servers, Traffic& traffic, std::size_t part, std::size_t parts)
      : machine_(machine), servers_(servers), traffic_(traffic),
        hash_{machine.l2_config.slices, machine.l2_config.partitions, machine.l2_config.folded_hash},
        own_(static_cast<std::size_t>(hash_.groups), -1), read_q16_(machine.l2_q16 * machine.l2_config.slices), write_q16_(machine.l2_write_q16 * machine.l2_config.slices) {
    if (!machine.by_line) return;
    groups_.reserve(own_.size() / parts + 1);
    for (std::size_t g = part; g < own_.size(); g += parts) {
      own_[g] = static_cast<std::int32_t>(groups_.size());
      groups_.emplace_back(machine, hash_.groups);
    }
  }

  // The whole of `tensor` is there, as far as it fits.
  void warm(const Tensor& tensor) {
    std::int64_t end = tensor.base + std::max(tensor.element_bits / 8, 1);
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) end += (tensor.shape[d] - 1) * tensor.stride_bytes[d];
    for (std::int64_t line = tensor.base / machine_.line_bytes; line * machine_.line_bytes < end; ++line) {
      const auto key = static_cast<std::uint64_t>(line);
      const std::int32_t number = hash_.home(key).group;
      if (own_[static_cast<std::size_t>(number)] < 0) continue;
      Group& group = group_of(number);
      if (group.cache.used() + machine_.line_bytes > machine_.l2_capacity / hash_.groups) continue;
      group.cache.touch(key, machine_.line_bytes).mask = kSectors;
      group.foreign.displace(group.cache.used(), 0);
    }
  }

  // What the kernel before left in them.
  void carry(const L2Contents& before) {
    for (std::size_t g = 0; g < own_.size(); ++g)
      if (own_[g] >= 0) group_of(static_cast<std::int32_t>(g)).foreign.restore({before.foreign[2 * g], before.foreign[2 * g + 1]});
    for (std::size_t i = 0; i < before.keys.size(); ++i) {
      const L2Contents::Entry entry = before[i];
      const std::int32_t number = hash_.home(entry.key).group;
      if (own_[static_cast<std::size_t>(number)] < 0) continue;
      L2Cache& cache = group_of(number).cache;
      L2Cache::Block& block = cache.touch(entry.key, machine_.line_bytes);
      const auto dirty = static_cast<std::uint32_t>(entry.dirty);
      block.mask = static_cast<std::uint32_t>(entry.there) | dirty << kDirtyShift;
      block.dirty = std::popcount(dirty) * machine_.sector_bytes;
      block.copies = entry.copies;
      cache.grow(block, std::popcount(entry.copies) * machine_.line_bytes);
    }
  }

  // What is left in the end.
  void leave(L2Contents& out) {
    out.foreign.resize(2 * own_.size());
    for (std::size_t g = 0; g < own_.size(); ++g) {
      if (own_[g] < 0) continue;
      Group& group = group_of(static_cast<std::int32_t>(g));
      group.cache.each([&](const L2Cache::Block& block) {
        out.add({block.key, static_cast<std::int32_t>(block.mask & kSectors), static_cast<std::int32_t>(block.mask >> kDirtyShift), block.copies});
      });
      out.foreign[2 * g] = group.foreign.state().left;
      out.foreign[2 * g + 1] = group.foreign.state().written;
    }
  }

  // See MemorySystem.
  void look_up(const Piece& piece, std::int32_t sm) const {
    const Group& group = group_of(hash_.home(piece.key).group);
    if (group.coalescer.active()) group.coalescer.look_up(sm, piece.key, piece.mask);
    group.cache.look_up(piece.key);
  }
  void look_at(const Piece& piece) const { group_of(hash_.home(piece.key).group).cache.look_at(piece.key); }
  void look_around(const Piece& piece) const { group_of(hash_.home(piece.key).group).cache.look_around(piece.key); }

  Window load(const Piece& piece, std::int32_t sm, Tick first, Tick last) {
    const L2Hash::Home home = hash_.home(piece.key);
    Group& group = group_of(home.group);
    Coalescer::Request* request = nullptr;
    if (group.coalescer.active()) {
      request = &group.coalescer.place(sm, piece.key, piece.mask);
      if (Coalescer::shared(*request, sm, piece.key, piece.mask, first)) {
        traffic_.l2_coalesced += piece.sector_bytes;
        return {std::max(request->first, first), std::max(request->last, last)};
      }
    }
    L2Cache::Block& block = group.cache.touch(piece.key, machine_.line_bytes);
    traffic_.l2_read += piece.sector_bytes;
    ++traffic_.l2_requests;
    // From which partition the data comes: its own, or the SM's if that has a copy.
    const std::int32_t side = machine_.l2_config.side[static_cast<std::size_t>(sm)];
    std::int32_t from = home.partition;
    Tick ready = block.ready;
    if (side != from && machine_.l2_config.remote_copy) {
      if ((block.copies >> side & 1) != 0) {
        from = side;
        ready = std::max(ready, block.copied);
      } else {
        block.copies |= 1u << side;
        group.cache.grow(block, machine_.line_bytes);
      }
    }
    Slice& slice = group.slices[static_cast<std::size_t>(from)];
    const Tick work = scaled(piece.sector_bytes, read_q16_);
    Tick begin = first;  // the lookup does not queue for the bandwidth of the slice, unless a miss in front finds no MSHR
    const std::uint32_t missing = piece.mask & ~(block.mask & kSectors);
    if (missing != 0) {
      Mshr& mshr = group.slices[static_cast<std::size_t>(home.partition)].mshr;
      begin = mshr.claim(first);
      const std::int64_t bytes = std::popcount(missing) * machine_.sector_bytes;
      const DramChannels::Answer answer = group.dram.access(piece.key, home.partition, bytes, begin, false);
      ready = std::max(ready, answer.last);
      mshr.hold(ready);
      block.ready = ready;
      block.mask |= piece.mask;
      traffic_.dram_read += bytes;
      dram_busy_ += scaled(bytes, machine_.dram_q16);
    } else {
      ++traffic_.l2_hit;
    }
    const Tick start = std::max(begin, slice.read_free);
    servers_.add_queued(machine_.l2.resource, start - first);
    servers_.add_busy(machine_.l2.resource, scaled(piece.sector_bytes, machine_.l2_q16));
    slice.read_free = start + work;
    const Tick latency = from == side ? machine_.l2_near : machine_.l2_far;
    if (from != side && machine_.l2_config.remote_copy) block.copied = std::max(start + work, ready) + machine_.l2_far - machine_.l2_near;
    shrink(group, first);
    const Window window{std::max(start, ready) + latency, std::max(std::max(start + work, last + (start - first)), ready) + latency};
    if (request != nullptr) *request = {piece.key, piece.mask, sm, window.first, window.last};
    return window;
  }

  Window store(const Piece& piece, std::int32_t request_bytes, Tick first, Tick last, bool atomic) {
    const L2Hash::Home home = hash_.home(piece.key);
    Group& group = group_of(home.group);
    L2Cache::Block& block = group.cache.touch(piece.key, machine_.line_bytes);
    drop_copies(group, block);
    if (atomic && (piece.mask & ~(block.mask & kSectors)) != 0) {
      group.dram.access(piece.key, home.partition, piece.bytes, first, false);
      dram_busy_ += scaled(piece.bytes, machine_.dram_q16);
      traffic_.dram_read += piece.bytes;
    }
    block.mask |= piece.mask | piece.mask << kDirtyShift;
    block.dirty = std::popcount(block.mask >> kDirtyShift) * machine_.sector_bytes;
    traffic_.l2_written += piece.sector_bytes;
    const std::int64_t bytes = write_bytes(piece, request_bytes) * (atomic ? 2 : 1);
    Slice& slice = group.slices[static_cast<std::size_t>(home.partition)];
    const Tick start = std::max(first, slice.write_free);
    slice.write_free = start + scaled(bytes, write_q16_);
    servers_.add_queued(machine_.l2_write.resource, start - first);
    servers_.add_busy(machine_.l2_write.resource, scaled(bytes, machine_.l2_write_q16));
    shrink(group, first);
    const Tick taken = std::max(slice.write_free, last);
    return {taken, taken + machine_.l2_near / 2};
  }

  Tick dram_busy() const { return dram_busy_; }
  // What DRAM still has to do at `end`, as a share of all channels.
  Tick dram_left(Tick end) const {
    Tick sum = 0;
    for (const Group& group : groups_) sum += group.dram.left(end);
    return sum / machine_.dram.channels;
  }

 private:
  static constexpr std::uint32_t kSectors = 0xF;  // of a 128-byte line
  static constexpr int kDirtyShift = 16;
  static constexpr std::int32_t kCoalescerEntries = 64;  // lines under way of one unit in one group

  struct Slice {
    Mshr mshr;
    Tick read_free = 0, write_free = 0;
  };
  struct Group {
    Group(const Machine& machine, std::int32_t groups)
        : cache(machine.l2_capacity / groups), foreign(machine.l2_capacity / groups, machine.l2_foreign / groups),
          slices(static_cast<std::size_t>(machine.l2_config.partitions), Slice{Mshr(machine.l2_config.mshr_per_slice)}),
          coalescer(machine.sms, machine.l2_config.coalescer_sms, machine.l2_config.coalescer_sms > 1 ? kCoalescerEntries : 0),
          dram(machine, groups) {}
    L2Cache cache;
    ForeignLines foreign;
    std::vector<Slice> slices;  // [partitions]
    Coalescer coalescer;
    DramChannels dram;
  };

  Group& group_of(std::int32_t number) { return groups_[static_cast<std::size_t>(own_[static_cast<std::size_t>(number)])]; }
  const Group& group_of(std::int32_t number) const { return groups_[static_cast<std::size_t>(own_[static_cast<std::size_t>(number)])]; }

  // What was written is nowhere else.
  static void drop_copies(Group& group, L2Cache::Block& block) {
    if (block.copies == 0) return;
    group.cache.grow(block, -std::popcount(block.copies) * (block.footprint / (1 + std::popcount(block.copies))));
    block.copies = 0;
  }

  void shrink(Group& group, Tick now) {
    if (const std::int64_t gone = group.foreign.displace(group.cache.used(), machine_.line_bytes); gone > 0) {
      group.dram.write_anywhere(gone, now);
      written(gone);
    }
    for (L2Cache::Evicted out = group.cache.evict(); out.dirty >= 0; out = group.cache.evict()) {
      if (out.dirty == 0) continue;
      group.dram.access(out.key, hash_.home(out.key).partition, out.dirty, now, true);
      written(out.dirty);
    }
  }
  void written(std::int64_t bytes) {
    traffic_.dram_written += bytes;
    dram_busy_ += scaled(bytes, machine_.dram_q16);
  }

  const Machine& machine_;
  Servers& servers_;
  Traffic& traffic_;
  L2Hash hash_;
  std::vector<std::int32_t> own_;  // [groups of the chip] where it is among `groups_`; -1: it belongs to another part
  std::int64_t read_q16_, write_q16_;  // ticks a byte of one slice
  std::vector<Group> groups_;
  Tick dram_busy_ = 0;
};

}  // namespace gtsim
