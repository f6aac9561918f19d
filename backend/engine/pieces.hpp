// Pieces of tiles on their way between an SM and the memory system.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "program.hpp"
#include "tiles.hpp"

namespace gtsim {

// A piece under way. The shard writes it until it sends a request, the memory system until it answers.
struct PieceState {
  Piece piece;
  const MemoryAccess* access;
  std::int32_t transfer, sm, chunk, chunks;
  Tick first, last;  // window of its requests at the unit, later of its data at the SM
  std::int32_t part(std::int32_t amount) const {
    return chunks == 1 ? amount : chunk + 1 < chunks ? amount / chunks : amount - amount / chunks * (chunks - 1);
  }
};

// A request that reaches the L2 at `when`.
struct Request {
  Tick when;
  std::int32_t piece;
};

// What the memory system says of a piece: the data of a load begins to arrive, or a store is known to be complete, at `when`.
struct Answer {
  Tick when;
  std::int32_t piece;
  bool load;
};

// Pieces by number. They stay where they are while others are added, so that the memory system may work on some meanwhile.
class PiecePool {
 public:
  PieceState& operator[](std::int32_t id) { return blocks_[static_cast<std::size_t>(id) / kBlock][static_cast<std::size_t>(id) % kBlock]; }

  // Number of an unused piece. Throws std::runtime_error if there are too many.
  std::int32_t take() {
    if (unused_.empty()) {
      const std::size_t block = static_cast<std::size_t>(count_) / kBlock;
      if (block == blocks_.size()) throw std::runtime_error("too many memory requests at once");
      blocks_[block] = std::make_unique<PieceState[]>(kBlock);
      for (std::size_t i = kBlock; i > 0; --i) unused_.push_back(count_ + static_cast<std::int32_t>(i) - 1);
      count_ += static_cast<std::int32_t>(kBlock);
    }
    const std::int32_t id = unused_.back();
    unused_.pop_back();
    return id;
  }
  void give_back(std::int32_t id) { unused_.push_back(id); }

 private:
  static constexpr std::size_t kBlock = 256;
  std::array<std::unique_ptr<PieceState[]>, 1024> blocks_;
  std::vector<std::int32_t> unused_;
  std::int32_t count_ = 0;
};

}  // namespace gtsim
