// Bounds on the numbers of a program, so that the engine's integers hold whatever follows from them.
#pragma once
#include "program.hpp"

namespace gtsim {

inline constexpr Tick kLongest = Tick{1} << (46 + kTickBits);        // of a run: 2^46 cycles
inline constexpr std::int64_t kMostQ16 = std::int64_t{1} << 46;      // ticks a byte or request: 2^14 cycles
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;  // of a dimension, and how far a tile may lie outside
inline constexpr std::int32_t kMostIndex = 0xFFFFFF;                 // of a column, a tile of a node, an instance of a period
inline constexpr double kMostRequests = 1 << 22;                     // of one access
inline constexpr double kMostEager = 1 << 24;                        // operations of a CTA that exist from its start
inline constexpr std::int32_t kMostParts = 4096;                     // slices, channels, banks
inline constexpr std::int32_t kMostPieces = 127;                     // of one stage
inline constexpr std::int32_t kMostStages = 100;                     // of one demand
inline constexpr std::int32_t kMostBytes = 1 << 16;                  // of a line, a sector or a request

// Throws std::invalid_argument for numbers out of range, std::runtime_error for a run that would take too long.
void check_limits(const Program& program);

}  // namespace gtsim
