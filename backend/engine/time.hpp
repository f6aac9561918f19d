// Integer time: one cycle is 2^16 ticks, so that rates such as 4930 bytes a cycle stay exact to 10^-5.
#pragma once
#include <cstdint>
#include <limits>

namespace gtsim {

using Tick = std::int64_t;
inline constexpr int kTickBits = 16;
inline constexpr Tick kTicksPerCycle = Tick{1} << kTickBits;
inline constexpr Tick kNever = std::numeric_limits<Tick>::max();

// Cost of `amount` units at `ticks_q16` ticks a unit, the latter a fixed-point number with 16 fractional bits.
inline Tick scaled(std::int64_t amount, std::int64_t ticks_q16) {
  __extension__ using Wide = __int128;  // a slow resource and a large amount exceed 63 bits before the shift
  return static_cast<Tick>((static_cast<Wide>(amount) * ticks_q16) >> 16);
}

// `part` of `parts` equal parts of a time, rounded down, where the product of both might not fit.
inline Tick share(Tick whole, std::int64_t part, std::int64_t parts) {
  if (part == parts) return whole;
  if (whole >= 0 && whole < Tick{1} << 40 && part < 1 << 22) return whole * part / parts;
  return whole / parts * part + whole % parts * part / parts;
}

}  // namespace gtsim
