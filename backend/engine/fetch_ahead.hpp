// Asking for memory before it is needed: what a queue says will be touched next but one is in the cache when its turn comes.
#pragma once

namespace gtsim {

// Have the cache line at `address` fetched, which will be written soon. Where a function does nothing else, GCC takes it for one without
// effect and leaves out its calls; the empty statement is an effect.
inline void fetch_ahead(const void* address) {
  __builtin_prefetch(address, 1);
  __asm__ volatile("" : : "r"(address));
}

// The same for something that may lie in two of them.
template <typename T>
void fetch_whole(const T& thing) {
  fetch_ahead(&thing);
  fetch_ahead(reinterpret_cast<const char*>(&thing + 1) - 1);
}

}  // namespace gtsim
