// What the microbenchmarks share: registration, rows, and PTX under readable names.
//
// A microbenchmark is one file of this folder. MICRO(name) { ... } registers it; its comments of the form
//     // sass KERNEL: INSTRUCTION >= COUNT
// say what the compiled kernel must contain (a regular expression), so that check_sass.py finds out if the compiler removed what
// is timed. Loops around what is timed are not unrolled: copies of the code would each miss the instruction cache.
// Kernels are extern "C" where they are no templates: the check finds them by a part of their name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "../host/kit.hpp"

namespace micro {

// 64 bits to the end: then the clock is read by CS2R, which takes fixed time. Of 32 bits the compiler makes S2UR where it can.
using Cycles = unsigned long long;

using Run = void (*)();
inline std::map<std::string, Run>& registered() {
  static std::map<std::string, Run> all;
  return all;
}
struct Registration {
  Registration(const char* name, Run run) { registered()[name] = run; }
};
#define MICRO(name)                                                  \
  static void run_##name();                                          \
  static const ::micro::Registration registration_##name(#name, run_##name); \
  static void run_##name()

// One row: a constant, the hardware key that can take its value ("" if none does), and what was sampled.
void constant(const std::string& name, const std::string& key, const std::string& unit, const std::vector<double>& samples,
              const std::string& note = "");

// What reading the clock twice costs by itself: to be taken off where a single event is timed.
double clock_read_cycles();

// Launch, wait, and report what the kernel did wrong, if anything.
void finish(const char* what);

// ---- device ----------------------------------------------------------------------------------------------------------

// The SM's clock; nothing volatile moves across it.
static __device__ __forceinline__ Cycles clock_now() {
  Cycles t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}

static __device__ __forceinline__ unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

static __device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The same value, but not to be computed again where it is used: what is timed must not hold the arithmetic.
static __device__ __forceinline__ unsigned held(unsigned value) {
  asm volatile("mov.b32 %0, %0;" : "+r"(value));
  return value;
}
static __device__ __forceinline__ std::uint64_t held(std::uint64_t value) {
  asm volatile("mov.b64 %0, %0;" : "+l"(value));
  return value;
}

// Holds back what follows until `value` is there.
static __device__ __forceinline__ void use(unsigned value, unsigned* shared_word) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(shared_address(shared_word)), "r"(value) : "memory");
}

static __device__ __forceinline__ void barrier_init(std::uint64_t* bar, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
}

static __device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

static __device__ __forceinline__ void arrive(std::uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}

static __device__ __forceinline__ void expect_bytes(std::uint64_t* bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void wait_parity(std::uint64_t* bar, unsigned parity) {
  asm volatile(
      "{\n .reg .pred done;\n"
      "again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      " @done bra over;\n bra again;\nover:\n}" ::"r"(shared_address(bar)), "r"(parity) : "memory");
}

static __device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

static __device__ __forceinline__ void tma_load(unsigned to, const CUtensorMap* map, int column, int row, std::uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(shared_address(bar)) : "memory");
}

static __device__ __forceinline__ void bulk_load(unsigned to, const void* from, unsigned bytes, std::uint64_t* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(shared_address(bar)) : "memory");
}

static __device__ __forceinline__ void tma_store(const CUtensorMap* map, int column, int row, unsigned from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column), "r"(row),
               "r"(from) : "memory");
}

}  // namespace micro
