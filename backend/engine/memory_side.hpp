// The memory system as the SMs meet it: requests arrive as messages, in the order of (time, shard, number), and are answered.
#pragma once
#include <algorithm>
#include <deque>
#include <vector>

#include "event_queue.hpp"
#include "memory.hpp"
#include "shard.hpp"

namespace gtsim {

// An answer to a shard.
struct Answer {
  Tick when;
  std::int32_t piece;
};

// A part of the memory system that shares nothing with the others: all of it, or some groups of slices.
class MemorySide {
 public:
  // Part `number` of all.
  MemorySide(const Chip& chip, Tick* free, std::size_t number, std::size_t shards)
      : servers(chip.machine, free), memory(chip.program, servers, traffic, number, chip.route.parts), number_(number), forward_(chip.forward) {
    for (auto& side : inbox) side.resize(shards);
  }

  // Take in what `shards` sent to outbox 1 - `side` and serve all requests before `until`, answering into inbox `side`; returns the
  // time of the next request or answer, kNever without.
  Tick run(Tick until, int side, std::deque<Shard>& shards) {
    for (std::size_t s = 0; s < shards.size(); ++s) {
      Outbox& box = shards[s].outbox[1 - side][number_];
      for (const Request& r : box.requests)
        queue_.push(r.when, static_cast<std::uint64_t>(s) << 32 | static_cast<std::uint64_t>(r.piece));
      box.clear();
    }
    Tick first = kNever;
    for (;;) {
      const Tick next = queue_.next();
      if (next >= until) return std::min(next, first);
      const Event e = queue_.pop();
      ++events;
      const auto shard = static_cast<std::size_t>(e.payload >> 32);
      const auto piece = static_cast<std::int32_t>(e.payload);
      const Tick when = serve(shards[shard].pieces[piece], e.time);
      inbox[side][shard].push_back({when, piece});
      first = std::min(first, when);
    }
  }

  Traffic traffic;
  Servers servers;
  MemorySystem memory;
  std::vector<std::vector<Answer>> inbox[2];  // [sides][shards]
  std::int64_t events = 0;

 private:
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
  EventQueue queue_;
};

}  // namespace gtsim
