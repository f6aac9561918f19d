// When a run of requests or of data passes a place.
#pragma once
#include <algorithm>
#include <cstdint>

#include "tiles.hpp"
#include "time.hpp"

namespace gtsim {

struct Window {
  Tick first, last;  // its first and its last byte
};

// Bytes that the write requests of `piece` take on a port.
inline std::int64_t write_bytes(const Piece& piece, std::int32_t request_bytes) {
  return std::max<std::int64_t>(std::int64_t{piece.requests} * request_bytes, piece.sector_bytes);
}

}  // namespace gtsim
