#include "noc.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace gtsim {

namespace {

constexpr std::int32_t kDirections = 4;
enum Direction : std::int32_t { kEast, kWest, kSouth, kNorth };

// Place along the Hilbert curve that fills a square with sides of `side`, a power of two.
std::int64_t along_hilbert(std::int64_t side, std::int64_t x, std::int64_t y) {
  std::int64_t at = 0;
  for (std::int64_t s = side / 2; s > 0; s /= 2) {
    const bool right = (x & s) != 0, low = (y & s) != 0;
    at += s * s * ((right ? 3 : 0) ^ (low ? 1 : 0));
    if (!low) {  // turn the quarter so that the curve goes on where it came in
      if (right) {
        x = s - 1 - (x & (s - 1));
        y = s - 1 - (y & (s - 1));
      }
      std::swap(x, y);
    }
  }
  return at;
}

// Counters stay at the largest number instead of passing it.
void add(std::int64_t& sum, std::int64_t amount, std::int64_t times = 1) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(amount, times, &product) || __builtin_add_overflow(sum, product, &sum)) sum = kNever;
}

}  // namespace

NetworkStats& NetworkStats::operator+=(const NetworkStats& other) {
  for (const auto field : {&NetworkStats::requests, &NetworkStats::bytes, &NetworkStats::hops, &NetworkStats::residence,
                           &NetworkStats::link_wait, &NetworkStats::link_busy})
    add(this->*field, other.*field);
  return *this;
}

Tick Link::take(Tick at, Tick work, Tick now) {
  busy_.erase(busy_.begin(), std::find_if(busy_.begin(), busy_.end(), [&](const Busy& b) { return b.end > now; }));
  Tick start = at;
  auto behind = busy_.begin();
  while (behind != busy_.end() && (behind->end <= start || behind->begin < start + work)) {
    start = std::max(start, behind->end);
    ++behind;
  }
  if (work > 0) busy_.insert(behind, {start, start + work});
  return start;
}

Noc::Noc(const NetworkShape& shape, std::int32_t first, std::int32_t sms)
    : shape_(shape), first_(first), sms_(sms) {
  shape_.columns = std::min(shape_.columns, sms);
  rows_ = (sms + shape_.columns - 1) / shape_.columns;
  if (!shape_.mesh) return;
  links_.resize(static_cast<std::size_t>(rows_ * shape_.columns * kDirections));
  passed_.assign(links_.size(), -1);
}

std::int32_t Noc::hops(std::int32_t from, std::int32_t to) const {
  const std::int32_t a = from - first_, b = to - first_;
  return std::abs(a / shape_.columns - b / shape_.columns) + std::abs(a % shape_.columns - b % shape_.columns);
}

Tick Noc::transit(std::int32_t from, std::int32_t to) const {
  return shape_.mesh ? (hops(from, to) + 1) * shape_.hop : shape_.transit;
}

std::int64_t Noc::requests_of(std::int64_t bytes) const {
  return std::max<std::int64_t>((bytes + shape_.line_bytes - 1) / shape_.line_bytes, 1);
}

void Noc::count(std::int32_t from, std::int32_t to, std::int64_t bytes, std::int64_t requests, Tick waited) {
  add(stats.requests, requests);
  add(stats.bytes, bytes);
  add(stats.hops, requests, shape_.mesh ? hops(from, to) : 1);
  add(stats.residence, requests, transit(from, to) + waited);
  add(stats.link_wait, requests, waited);
}

void Noc::signal(std::int32_t from, std::int32_t to, std::int64_t requests) { count(from, to, 0, requests, 0); }

std::int32_t Noc::next(std::int32_t at, std::int32_t target) const {
  const std::int32_t column = at % shape_.columns, wanted = target % shape_.columns;
  if (column != wanted) return at * kDirections + (wanted > column ? kEast : kWest);
  return at * kDirections + (target > at ? kSouth : kNorth);
}

Tick Noc::send(std::int32_t from, std::int32_t to, std::int64_t bytes, Tick entered, Tick now) {
  for (const std::int32_t l : tree_) passed_[static_cast<std::size_t>(l)] = -1;
  tree_.clear();
  return send_again(from, to, bytes, entered, now);
}

Tick Noc::send_again(std::int32_t from, std::int32_t to, std::int64_t bytes, Tick entered, Tick now) {
  if (!shape_.mesh || from == to) {
    count(from, to, bytes, requests_of(bytes), 0);
    return entered;
  }
  const Tick work = scaled(bytes, shape_.link_q16);
  const std::int32_t step[kDirections] = {1, -1, shape_.columns, -shape_.columns};
  Tick head = entered;
  for (std::int32_t at = from - first_; at != to - first_;) {
    const std::int32_t l = next(at, to - first_);
    Tick& passed = passed_[static_cast<std::size_t>(l)];
    if (passed < 0) {
      const Tick start = links_[static_cast<std::size_t>(l)].take(head, work, now);
      add(stats.link_busy, work);
      passed = start + shape_.hop;
      tree_.push_back(l);
    }
    head = passed;
    at += step[l % kDirections];
  }
  const Tick waited = head - entered - hops(from, to) * shape_.hop;
  count(from, to, bytes, requests_of(bytes), waited);
  return entered + waited + work;
}

std::int32_t Noc::links() const {
  return shape_.mesh ? 2 * (rows_ * (shape_.columns - 1) + (rows_ - 1) * shape_.columns) : 0;
}

std::vector<std::int32_t> Noc::compact_order() const {
  std::int64_t side = 1;
  while (side < std::max(rows_, shape_.columns)) side *= 2;
  std::vector<std::pair<std::int64_t, std::int32_t>> places;
  for (std::int32_t i = 0; i < sms_; ++i) places.emplace_back(along_hilbert(side, i % shape_.columns, i / shape_.columns), first_ + i);
  std::sort(places.begin(), places.end());
  std::vector<std::int32_t> order;
  for (const auto& [at, sm] : places) order.push_back(sm);
  return order;
}

}  // namespace gtsim
