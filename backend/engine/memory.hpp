// The memory system behind the SMs: L2 and DRAM as seen by one run of requests.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "l2_cache.hpp"
#include "program.hpp"
#include "servers.hpp"
#include "tiles.hpp"

namespace gtsim {

class MemorySystem {
 public:
  MemorySystem(const Machine& machine, Servers& servers, Traffic& traffic)
      : machine_(machine), servers_(servers), traffic_(traffic), cache_(machine.l2_capacity), foreign_(machine.l2_foreign) {}

  struct Window {
    Tick first, last;  // when the first and the last byte are back at the SM
  };

  // Bytes that the write requests of `piece` take on a port.
  static std::int64_t write_bytes(const Piece& piece, std::int32_t request_bytes) {
    return std::max<std::int64_t>(std::int64_t{piece.requests} * request_bytes, piece.sector_bytes);
  }

  // Requests of `piece` reach the L2 from `first` to `last`; the data is back within the returned window.
  Window load(const Piece& piece, std::int32_t sm, Tick first, Tick last) {
    L2Cache::Block& block = cache_.touch(piece.key, piece.footprint);
    const std::uint32_t missing = piece.mask & ~(block.mask & kValid);
    Tick ready_first = first, ready_last = last;
    traffic_.l2_read += piece.sector_bytes;
    traffic_.l2_requests += piece.lines;
    if (missing != 0) {
      const std::int64_t bytes = machine_.by_line ? std::popcount(missing) * machine_.sector_bytes : piece.footprint;
      const Tick start = dram(first, bytes, false);
      ready_first = start + machine_.dram_latency;
      ready_last = std::max(start + scaled(bytes, machine_.dram_q16), last) + machine_.dram_latency;
      block.ready = std::max(block.ready, ready_last);
      block.mask |= piece.mask & kValid;
      traffic_.dram_read += bytes;
    } else {
      traffic_.l2_hit += piece.lines;
      if (block.ready > first) {
        ready_first = std::max(first, block.ready - (last - first));
        ready_last = std::max(last, block.ready);
      }
    }
    shrink(first);
    const Tick work = scaled(piece.sector_bytes, machine_.l2_q16);
    const Tick start = servers_.reserve(machine_.l2, 0, first, work);
    // Requests of other SMs come between the first and the last one: the last queues behind as much as the first did.
    const Tick near = latency(piece.key, sm), far = piece.lines > 1 ? machine_.l2_far : near;
    return {std::max(start, ready_first) + (piece.lines > 1 ? machine_.l2_near : near),
            std::max(std::max(start + work, last + (start - first)), ready_last) + far};
  }

  // Data of `piece` reaches the L2 from `first` to `last` in requests of `request_bytes` on the wire; returns when it has
  // been taken (first) and when the SM could know (last).
  Window store(const Piece& piece, std::int32_t request_bytes, Tick first, Tick last, bool atomic) {
    L2Cache::Block& block = cache_.touch(piece.key, piece.footprint);
    if (atomic && (piece.mask & ~(block.mask & kValid)) != 0) {
      dram(first, piece.bytes, false);
      traffic_.dram_read += piece.bytes;
    }
    block.mask |= piece.mask & kValid;
    if (machine_.by_line) {
      block.mask |= (piece.mask & kLineSectors) << kDirtyShift;
      block.dirty = std::popcount(block.mask & (kLineSectors << kDirtyShift)) * machine_.sector_bytes;
    } else {
      block.dirty = std::min(block.dirty + piece.bytes, piece.footprint);
    }
    traffic_.l2_written += piece.sector_bytes;
    shrink(first);
    const std::int64_t bytes = write_bytes(piece, request_bytes);
    const Tick work = scaled(atomic ? 2 * bytes : bytes, machine_.l2_write_q16);
    const Tick start = servers_.reserve(machine_.l2_write, 0, first, work);
    const Tick taken = std::max(start + work, last);
    return {taken, taken + machine_.l2_near / 2};
  }

  Tick dram_busy() const { return dram_busy_; }
  // The same without what is left to write back at `end`, the end of the run: the channels are busy from then on.
  Tick dram_busy_until(Tick end) const { return dram_busy_ - std::max<Tick>(dram_free_ - end, 0); }
  void add_dram_busy(Tick work) { dram_busy_ += work; }

 private:
  static constexpr std::uint32_t kLineSectors = 0xF;   // sectors of a 128-byte line
  static constexpr int kDirtyShift = 16;
  static constexpr std::uint32_t kValid = 0xFFFF;

  // A line lives in one of two partitions by the parity of its address; half of the SMs are near each.
  Tick latency(std::uint64_t key, std::int32_t sm) const {
    const bool upper_sm = 2 * sm >= machine_.sms;
    return ((std::popcount(key) & 1) != 0) == upper_sm ? machine_.l2_near : machine_.l2_far;
  }

  void shrink(Tick now) {
    if (foreign_ > 0) {  // what was there before is the oldest: it goes first
      const std::int64_t gone = std::min(foreign_, std::max<std::int64_t>(cache_.used() + foreign_ - machine_.l2_capacity, 0));
      foreign_ -= gone;
      if (gone > 0) {
        dram(now, gone, true);
        traffic_.dram_written += gone;
      }
    }
    for (std::int64_t dirty = cache_.evict(); dirty >= 0; dirty = cache_.evict()) {
      if (dirty > 0) {
        dram(now, dirty, true);
        traffic_.dram_written += dirty;
      }
    }
  }

  // The channels serve reads and writes in the order of arrival; a mix of both costs turnarounds.
  Tick dram(Tick now, std::int64_t bytes, bool write) {
    (write ? recent_written_ : recent_read_) += bytes;
    const std::int64_t total = recent_written_ + recent_read_;
    const std::int64_t mixed = 2 * std::min(recent_written_, recent_read_);
    const Tick work = scaled(bytes, machine_.dram_q16) + scaled(bytes * mixed / total, machine_.dram_turn_q16);
    if (total > kRecentBytes) {
      recent_written_ /= 2;
      recent_read_ /= 2;
    }
    const Tick start = std::max(now, dram_free_);
    dram_free_ = start + work;
    dram_busy_ += work;
    return start;
  }

  static constexpr std::int64_t kRecentBytes = 1 << 20;  // window over which the mix of reads and writes is taken
  const Machine& machine_;
  Servers& servers_;
  Traffic& traffic_;
  L2Cache cache_;
  std::int64_t foreign_;  // bytes of another program's modified lines
  Tick dram_free_ = 0, dram_busy_ = 0;
  std::int64_t recent_read_ = 0, recent_written_ = 0;
};

}  // namespace gtsim
