// The memory system as the SMs meet it: requests arrive as messages, in the order of (time, shard, number), and are answered.
#pragma once
#include <algorithm>
#include <deque>
#include <vector>

#include "batch_queue.hpp"
#include "fetch_ahead.hpp"
#include "memory.hpp"
#include "shard.hpp"

namespace gtsim {

// A part of the memory system that shares nothing with the others: all of it, or some groups of slices.
class MemorySide {
 public:
  // Part `number` of all.
  MemorySide(const Chip& chip, Tick* free, std::size_t number, std::size_t shards)
      : servers(chip.machine, free), memory(chip.program, servers, traffic, number, chip.route.parts), number_(number), forward_(chip.forward) {
    for (auto& side : inbox) side.resize(shards);
  }

  // Take in what those of `shards` that `sent` something put in outbox 1 - `side`, and serve all requests before `until`, answering
  // into inbox `side`; returns the time of the next request or answer, kNever without.
  Tick run(Tick until, int side, std::deque<Shard>& shards, const std::vector<std::uint8_t>& sent) {
    for (std::uint32_t s = 0; s < shards.size(); ++s) {
      if (sent[s] == 0) continue;
      Shard& shard = shards[s];
      Outbox& box = shard.outbox[1 - side][number_];
      for (const Request& r : box.requests) queue_.add(r.when, next_++, {&shard.pieces[r.piece], s, r.piece});
      box.clear();
    }
    queue_.settle();
    Tick first = kNever;
    for (;;) {
      const Tick next = queue_.next();
      if (next >= until) return std::min(next, first);
      look_ahead();
      const Arrival a = queue_.front().item;
      queue_.pop();
      ++events;
      const Tick when = serve(*a.piece, next);
      inbox[side][a.shard].push_back({when, a.number, a.piece->access->direction == Direction::kLoad});
      first = std::min(first, when);
    }
  }

  Traffic traffic;
  Servers servers;
  MemorySystem memory;
  std::vector<std::vector<Answer>> inbox[2];  // [sides][shards]
  std::int64_t events = 0;

 private:
  struct Arrival {
    PieceState* piece;
    std::uint32_t shard;
    std::int32_t number;
  };

  // Have what the next requests will touch fetched meanwhile.
  void look_ahead() const {
    constexpr std::size_t kFar = 20, kMiddle = 13, kNear = 7, kNext = 3;
    if (const auto* entry = queue_.ahead(kFar)) fetch_whole(*entry->item.piece);
    if (const auto* entry = queue_.ahead(kMiddle)) memory.look_up(entry->item.piece->piece, entry->item.piece->sm);
    if (const auto* entry = queue_.ahead(kNear)) memory.look_at(entry->item.piece->piece);
    if (const auto* entry = queue_.ahead(kNext)) memory.look_around(entry->item.piece->piece);
  }

  // Serve a piece that arrives now; returns when the SM hears of it, no sooner than a message takes.
  Tick serve(PieceState& piece, Tick now) {
    const Tick soonest = now + forward_;
    const MemoryAccess& access = *piece.access;
    if (access.direction == Direction::kLoad) {  // latencies of the memory system include the way there
      const MemorySystem::Window window = memory.load(piece.piece, piece.sm, now, piece.last);
      piece.first = std::max(window.first - forward_, soonest);
      piece.last = std::max(window.last - forward_, piece.first);
      return piece.first;
    }
    const MemorySystem::Window taken = memory.store(piece.piece, access.write_bytes, now, piece.last, access.direction == Direction::kAtomic);
    return std::max(taken.last, soonest);
  }

  const std::size_t number_;
  const Tick forward_;
  BatchQueue<Arrival> queue_;
  std::uint64_t next_ = 0;
};

}  // namespace gtsim
