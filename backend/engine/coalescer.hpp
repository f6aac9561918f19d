// Merges the reads of SMs that share a way to the L2 (a TPC): a line that is under way for one of them is not asked for again.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "fetch_ahead.hpp"
#include "time.hpp"

namespace gtsim {

class Coalescer {
 public:
  // Units of `sms_per_unit` SMs, each of which remembers up to about `entries` requests; none at all if `entries` is 0.
  Coalescer(std::int32_t sms, std::int32_t sms_per_unit, std::int32_t entries)
      : sms_per_unit_(static_cast<std::uint32_t>(sms_per_unit)), slots_(std::bit_ceil(static_cast<std::uint32_t>(std::max(entries, 1)))) {
    if (entries > 0) table_.resize(static_cast<std::size_t>((sms + sms_per_unit - 1) / sms_per_unit) * slots_);
  }

  struct alignas(32) Request {  // none lies in two cache lines
    std::uint64_t key = ~std::uint64_t{0};
    std::uint32_t mask = 0;
    std::int32_t sm = -1;
    Tick first = 0, last = 0;  // when the first and the last byte of the answer are back at the SMs
  };
  bool active() const { return !table_.empty(); }

  // Where the latest request of the unit of `sm` for `key` is kept: perhaps another one's.
  Request& place(std::int32_t sm, std::uint64_t key, std::uint32_t mask) {
    return table_[slot(sm, key, mask)];
  }
  // Have that place fetched into the cache.
  void look_up(std::int32_t sm, std::uint64_t key, std::uint32_t mask) const { fetch_ahead(&table_[slot(sm, key, mask)]); }

  // Whether `request` is the same data, under way for another SM, at `now`.
  static bool shared(const Request& request, std::int32_t sm, std::uint64_t key, std::uint32_t mask, Tick now) {
    return request.key == key && request.mask == mask && request.sm != sm && now < request.last;
  }

 private:
  std::size_t slot(std::int32_t sm, std::uint64_t key, std::uint32_t mask) const {
    std::uint64_t x = (key ^ (std::uint64_t{mask} << 40)) * 0x9E3779B97F4A7C15ull;
    x ^= x >> 32;
    const auto unit = static_cast<std::size_t>(static_cast<std::uint32_t>(sm) / sms_per_unit_);
    return unit * slots_ + (x & (slots_ - 1));
  }

  std::uint32_t sms_per_unit_;
  std::size_t slots_;
  std::vector<Request> table_;
};

}  // namespace gtsim
