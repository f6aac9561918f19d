// The memory system by runs of lines: a block of a tensor is read, copied and evicted whole, and its lines spread over all slices.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "block_spread.hpp"
#include "coalescer.hpp"
#include "dram.hpp"
#include "foreign.hpp"
#include "l2_cache.hpp"
#include "l2_hash.hpp"
#include "mshr.hpp"
#include "recut.hpp"
#include "program.hpp"
#include "servers.hpp"
#include "tiles.hpp"
#include "window.hpp"

namespace gtsim {

class BulkMemory {
 public:
  BulkMemory(const Program& program, Servers& servers, Traffic& traffic)
      : machine_(program.machine), servers_(servers), traffic_(traffic), cache_(machine_.l2_capacity), foreign_(machine_.l2_capacity, machine_.l2_foreign),
        coalescer_(machine_.sms, machine_.l2_config.coalescer_sms, machine_.l2_config.coalescer_sms > 1 && !machine_.by_line ? kCoalescerEntries : 0),
        mshr_(std::int64_t{machine_.l2_config.slices} * machine_.l2_config.mshr_per_slice), bus_(machine_, 1), rows_(machine_), spread_(program),
        reads_(machine_, spread_, machine_.l2, machine_.l2_q16), writes_(machine_, spread_, machine_.l2_write, machine_.l2_write_q16) {
    if (spread_.even()) return;
    const std::int32_t groups = machine_.l2_config.slices / machine_.l2_config.partitions;
    group_buses_.assign(static_cast<std::size_t>(groups), DramBus(machine_, groups));
  }

  // The whole of `tensor` is there, as far as it fits.
  void warm(std::int32_t tensor) {
    const std::int64_t blocks = spread_.blocks(tensor);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::uint64_t key = BlockSpread::first_key(tensor) + static_cast<std::uint64_t>(i);
      const std::int64_t bytes = spread_.bytes(key);
      if (cache_.used() + bytes > machine_.l2_capacity) return;
      cache_.touch(key, static_cast<std::int32_t>(bytes)).mask = kWholeBlock;
    }
    foreign_.displace(cache_.used(), 0);
  }

  // What the kernel before left. Its blocks are cut as this kernel cuts its tensors; what those do not cover stays as it is.
  void carry(const Program& program) {
    const L2Contents& before = program.before;
    foreign_.restore({before.foreign[0], before.foreign[1]});
    Recut recut(program, spread_);
    for (std::size_t i = 0; i < before.keys.size(); ++i) {
      const L2Contents::Entry entry = before[i];
      if (!recut.needed(entry.key)) {
        put(entry);
        continue;
      }
      const std::int64_t whole = spread_.bytes(entry.key);
      std::int64_t passed = 0;
      L2Contents::Entry rest = entry;
      recut.each(entry.key, [&](std::uint64_t key, std::int64_t bytes) {
        const auto part = [&](std::int64_t of) { return static_cast<std::int32_t>(of * (passed + bytes) / whole - of * passed / whole); };
        const L2Contents::Entry moved{key, part(entry.there), part(entry.dirty), entry.copies};
        rest.there -= moved.there;
        rest.dirty -= moved.dirty;
        passed += bytes;
        if (moved.there > 0) put(moved);
      });
      if (rest.there > 0) put(rest);
    }
    const std::int32_t partitions = machine_.l2_config.partitions;
    cache_.each([&](L2Cache::Block& block) {
      block.mask = block.footprint == spread_.bytes(block.key) ? kWholeBlock : 0;
      const std::int64_t more = std::int64_t{std::popcount(block.copies)} * (block.footprint / partitions * (partitions - 1));
      if (block.mask == 0 || more > std::numeric_limits<std::int32_t>::max() - block.footprint)
        block.copies = 0;
      else
        cache_.grow(block, static_cast<std::int32_t>(more));
    });
  }

  // What is left in the end.
  void leave(L2Contents& out) {
    cache_.each([&](const L2Cache::Block& block) {
      const std::int64_t there = block.mask != 0 ? spread_.bytes(block.key) : block.footprint;
      out.add({block.key, static_cast<std::int32_t>(there), block.dirty, block.copies});
    });
    out.foreign = {foreign_.state().left, foreign_.state().written};
  }

  // See MemorySystem.
  void look_up(const Piece& piece, std::int32_t sm) const {
    if (coalescer_.active()) coalescer_.look_up(sm, piece.key, static_cast<std::uint32_t>(piece.lines));
    cache_.look_up(piece.key);
  }
  void look_at(const Piece& piece) const { cache_.look_at(piece.key); }
  void look_around(const Piece& piece) const { cache_.look_around(piece.key); }

  Window load(const Piece& piece, std::int32_t sm, Tick first, Tick last) {
    std::int64_t bytes = piece.sector_bytes;
    Window shared{0, 0};  // of the part that another SM of the pair has asked for
    Coalescer::Request* request = nullptr;
    if (coalescer_.active() && piece.bytes >= piece.footprint) {  // of parts of a block it is not known whether they are the same
      request = &coalescer_.place(sm, piece.key, static_cast<std::uint32_t>(piece.lines));
      if (Coalescer::shared(*request, sm, piece.key, static_cast<std::uint32_t>(piece.lines), first)) {
        shared = {std::max(request->first, first), std::max(request->last, last)};
        if (first > request->first)  // its first lines are back already, and asked for again
          bytes = bytes * (first - request->first) / (request->last - request->first);
        else
          bytes = 0;
        traffic_.l2_coalesced += piece.sector_bytes - bytes;
        if (bytes == 0) return shared;
      }
    }
    L2Cache::Block& block = cache_.touch(piece.key, piece.footprint);
    const std::int32_t there = complete(block, piece.footprint);
    traffic_.l2_read += bytes;
    const std::int64_t lines =
        bytes == piece.sector_bytes ? piece.lines : std::max<std::int64_t>(std::int64_t{piece.lines} * bytes / piece.sector_bytes, 1);
    traffic_.l2_requests += lines;
    // Lines of other partitions come from there, until they have a copy in the reader's.
    const std::int32_t side = machine_.l2_config.side[static_cast<std::size_t>(sm)], partitions = machine_.l2_config.partitions;
    Tick near = machine_.l2_near, far = machine_.l2_far;
    if (piece.lines == 1 || partitions == 1) near = far = spread_.partition(piece.key) == side ? machine_.l2_near : machine_.l2_far;
    Tick ready_first = first, ready_last = last;
    bool copies = false;
    if (machine_.l2_config.remote_copy && partitions > 1) {
      if ((block.copies >> side & 1) != 0) {
        near = far = machine_.l2_near;
        ready_last = std::max(ready_last, block.copied);
      } else {
        copies = true;
        block.copies |= 1u << side;
        cache_.grow(block, piece.footprint / partitions * (partitions - 1));
      }
    }
    Tick begin = first;
    if (const std::uint32_t missing = piece.mask & ~block.mask; missing != 0) {
      begin = mshr_.claim(first, lines);
      const Tick start = dram(begin, piece.key, piece.footprint - there, false);
      // The latency is that of a row that must be opened.
      const Tick latency = machine_.dram_latency - (rows_.touch(spread_.address(piece.key)) ? machine_.dram.activate : 0);
      ready_first = start + latency;
      ready_last = std::max(dram_end_, last) + latency;
      mshr_.hold(ready_last, lines);
      block.ready = std::max(block.ready, ready_last);
      block.mask |= piece.mask;
      traffic_.dram_read += piece.footprint - there;
    } else {
      traffic_.l2_hit += lines;
      if (block.ready > first) {
        ready_first = std::max(first, block.ready - (last - first));
        ready_last = std::max(ready_last, block.ready);
      }
    }
    shrink(first);
    const Window served = reads_.serve(servers_, piece.key, bytes, first, begin);
    // Requests of other SMs come between the first and the last one: the last queues behind as much as the first did.
    const Tick done = std::max(std::max(served.last, last + (served.first - first)), ready_last);
    if (copies) block.copied = done + machine_.l2_far - machine_.l2_near;
    const Window window{std::max(std::max(served.first, ready_first) + near, shared.first), std::max(done + far, shared.last)};
    if (request != nullptr) *request = {piece.key, static_cast<std::uint32_t>(piece.lines), sm, window.first, window.last};
    return window;
  }

  Window store(const Piece& piece, std::int32_t request_bytes, Tick first, Tick last, bool atomic) {
    L2Cache::Block& block = cache_.touch(piece.key, piece.footprint);
    complete(block, piece.footprint);
    if (block.copies != 0) {  // what was written is nowhere else
      cache_.grow(block, piece.footprint - block.footprint);
      block.copies = 0;
    }
    if (atomic && (piece.mask & ~block.mask) != 0) {
      dram(first, piece.key, piece.bytes, false);
      traffic_.dram_read += piece.bytes;
    }
    block.mask |= piece.mask;
    block.dirty = std::min(block.dirty + piece.bytes, piece.footprint);
    traffic_.l2_written += piece.sector_bytes;
    shrink(first);
    const std::int64_t bytes = write_bytes(piece, request_bytes);
    const Tick taken = std::max(writes_.serve(servers_, piece.key, atomic ? 2 * bytes : bytes, first, first).last, last);
    return {taken, taken + machine_.l2_near / 2};
  }

  Tick dram_busy() const { return dram_busy_; }
  // What DRAM still has to do at `end`, as a share of all channels.
  Tick dram_left(Tick end) const {
    if (group_buses_.empty()) return bus_.left(end);
    Tick sum = 0;
    for (const DramBus& bus : group_buses_) sum += bus.left(end);
    return sum / static_cast<Tick>(group_buses_.size());
  }

 private:
  static constexpr std::int32_t kCoalescerEntries = 256;  // blocks under way of one unit

  // Add what an earlier kernel left of a block; `footprint` counts it, and `copies` are those of all its parts.
  void put(const L2Contents::Entry& entry) {
    const std::int64_t before = cache_.used();
    L2Cache::Block& block = cache_.touch(entry.key, entry.there);
    const bool fresh = cache_.used() != before;
    block.copies = fresh ? entry.copies : block.copies & entry.copies;
    const std::int64_t all = std::int64_t{block.footprint} + (fresh ? 0 : entry.there);
    const auto there = static_cast<std::int32_t>(std::min(all, spread_.bytes(entry.key)));
    cache_.grow(block, there - block.footprint);
    block.dirty = static_cast<std::int32_t>(std::min<std::int64_t>(std::int64_t{block.dirty} + entry.dirty, there));
  }

  // A block of which only a part is left takes its whole room from now on. Returns how many bytes were there.
  std::int32_t complete(L2Cache::Block& block, std::int32_t footprint) {
    if (block.mask != 0 || block.footprint >= footprint) return 0;
    const std::int32_t there = block.footprint;
    cache_.grow(block, footprint - there);
    return there;
  }

  void shrink(Tick now) {
    if (const std::int64_t gone = foreign_.displace(cache_.used(), machine_.line_bytes); gone > 0) {
      reserve(now, gone, true);
      traffic_.dram_written += gone;
    }
    for (L2Cache::Evicted out = cache_.evict(); out.dirty >= 0; out = cache_.evict()) {
      if (out.dirty > 0) {
        dram(now, out.key, out.dirty, true);
        traffic_.dram_written += out.dirty;
      }
    }
  }

  // The channels serve in the order of arrival. Returns when the first byte moves; the last one has at `dram_end_`.
  Tick dram(Tick now, std::uint64_t key, std::int64_t bytes, bool write) {
    if (spread_.even()) return reserve(now, bytes, write);
    Tick start = kNever;
    dram_end_ = now;
    const BlockSpread::Shares& shares = spread_.of(key);
    for (const BlockSpread::Share& share : shares.groups) {
      DramBus& bus = group_buses_[static_cast<std::size_t>(share.at)];
      const Tick begin = bus.reserve(now, bytes * share.lines / shares.lines, write);
      start = std::min(start, begin);
      dram_end_ = std::max(dram_end_, begin + bus.work());
    }
    dram_busy_ += scaled(bytes, machine_.dram_q16);
    return start;
  }
  Tick reserve(Tick now, std::int64_t bytes, bool write) {
    const Tick start = bus_.reserve(now, bytes, write);
    dram_busy_ += bus_.work();
    dram_end_ = start + scaled(bytes, machine_.dram_q16);
    return start;
  }

  const Machine& machine_;
  Servers& servers_;
  Traffic& traffic_;
  L2Cache cache_;
  ForeignLines foreign_;
  Coalescer coalescer_;
  MshrPool mshr_;
  DramBus bus_;
  OpenRows rows_;
  BlockSpread spread_;
  SliceServers reads_, writes_;
  std::vector<DramBus> group_buses_;  // where blocks do not spread evenly
  Tick dram_busy_ = 0, dram_end_ = 0;
};

}  // namespace gtsim
