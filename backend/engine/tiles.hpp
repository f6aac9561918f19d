// From tiles to memory requests: the pieces of a tensor that one access touches.
#pragma once
#include <vector>

#include "program.hpp"

namespace gtsim {

// A run of lines (bulk) or one line (by line) that an access needs.
struct Piece {
  std::uint64_t key;
  std::int32_t footprint;  // bytes of the block in the cache
  std::int32_t lines, bytes, sector_bytes, requests;
  std::uint32_t mask;  // sectors touched
};

inline constexpr std::uint32_t kWholeBlock = 1;  // mask of a piece that is a whole block

// The piece of a tile that is one whole block, remembered from an instance to the next: only its key changes.
struct PieceCache {
  std::int64_t phase = -1;  // where in a line it starts; -1: nothing remembered
  Piece piece{};
};

// Pieces of tile `tile_index` in run `run`, clipped to the tensor, appended to `out`. `columns` is the instance's row, `cache`
// belongs to the tile and the access.
void expand(const Program& program, const Template& t, std::int32_t tile_index, std::int32_t run, const std::int64_t* columns,
            const MemoryAccess& access, std::vector<Piece>& out, PieceCache& cache);

}  // namespace gtsim
