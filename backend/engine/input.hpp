// Reading the engine's input: Python dictionaries of integers and flat arrays. What is wrong raises ValueError with its name.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace gtsim {

namespace nb = nanobind;

template <typename T>
std::vector<T> vec(const nb::dict& d, const char* name) {
  using Array = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
  Array array;
  if (!d.contains(name) || !nb::try_cast<Array>(d[name], array))
    throw std::invalid_argument(std::string("engine input ") + name + " is missing or has the wrong type");
  return std::vector<T>(array.data(), array.data() + array.size());
}

inline std::int64_t integer(const nb::dict& d, const char* name) {
  std::int64_t value = 0;
  if (!d.contains(name) || !nb::try_cast<std::int64_t>(d[name], value))
    throw std::invalid_argument(std::string("engine input ") + name + " is missing or no integer");
  return value;
}

// The entry `name` as a dict or a list.
template <typename T>
T part(const nb::dict& d, const char* name) {
  T out;
  if (!d.contains(name) || !nb::try_cast<T>(d[name], out))
    throw std::invalid_argument(std::string("engine input ") + name + " is missing or has the wrong type");
  return out;
}

inline nb::dict entry(nb::handle h, const char* name) {
  nb::dict out;
  if (!nb::try_cast<nb::dict>(h, out)) throw std::invalid_argument(std::string("engine input ") + name + " must hold dictionaries");
  return out;
}

inline void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("engine input is inconsistent: ") + what);
}

// An integer within [low, high].
inline std::int32_t small(const nb::dict& d, const char* name, std::int32_t low, std::int32_t high) {
  const std::int64_t value = integer(d, name);
  if (value < low || value > high)
    throw std::invalid_argument(std::string("engine input ") + name + " is " + std::to_string(value) + ", and must be between " +
                                std::to_string(low) + " and " + std::to_string(high));
  return static_cast<std::int32_t>(value);
}

// Every value of `values` lies in [low, high).
template <typename T>
void in_range(const std::vector<T>& values, std::int64_t low, std::int64_t high, const char* what) {
  for (const T v : values) require(static_cast<std::int64_t>(v) >= low && static_cast<std::int64_t>(v) < high, what);
}

inline void index_array(const std::vector<std::int32_t>& ptr, std::size_t count, std::size_t total, const char* what) {
  require(ptr.size() == count + 1 && ptr.front() == 0 && static_cast<std::size_t>(ptr.back()) == total, what);
  for (std::size_t i = 0; i < count; ++i) require(ptr[i] <= ptr[i + 1], what);
}

}  // namespace gtsim
