// Throughput resources. Every resource instance is a server: it is free again at some time and has been busy so long.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

class Servers {
 public:
  explicit Servers(const Machine& machine) : busy_(machine.scopes.size(), 0), queued_(machine.scopes.size(), 0) {
    std::int32_t total = 0;
    for (const Scope scope : machine.scopes) total += count(machine, scope);
    free_.assign(static_cast<std::size_t>(total), 0);
  }

  // Fill in where the servers of `use` are; `sub` is the sub-partition for resources of that scope.
  static void place(Use& use, const Machine& machine, std::int32_t sub) {
    const Scope scope = machine.scopes[static_cast<std::size_t>(use.resource)];
    use.server = 0;
    for (std::int32_t r = 0; r < use.resource; ++r) use.server += count(machine, machine.scopes[static_cast<std::size_t>(r)]);
    use.gates = scope == Scope::kSubpartition;
    if (use.gates) use.server += sub;
    use.by_sm = machine.by_sm[static_cast<std::size_t>(scope)].data();
  }

  // The tables that `place` points to.
  static void number(Machine& machine) {
    std::int32_t gpc = 0;
    for (std::int32_t sm = 0; sm < machine.sms; ++sm) {
      while (machine.gpc_end[static_cast<std::size_t>(gpc)] <= sm) ++gpc;
      const std::array<std::int32_t, 5> at = {sm * machine.subpartitions, sm, sm / 2, gpc, 0};
      for (std::size_t scope = 0; scope < at.size(); ++scope) machine.by_sm[scope].push_back(at[scope]);
    }
  }

  Tick& free_at(const Use& use, std::int32_t sm) { return free_[static_cast<std::size_t>(use.server + use.by_sm[sm])]; }

  // Serve `work` in the order of arrival; returns the start. The server is free again at the returned start + work.
  Tick reserve(const Use& use, std::int32_t sm, Tick now, Tick work) {
    Tick& free = free_at(use, sm);
    const Tick start = std::max(now, free);
    free = start + work;
    busy_[static_cast<std::size_t>(use.resource)] += work;
    queued_[static_cast<std::size_t>(use.resource)] += start - now;
    return start;
  }

  void add_busy(std::int32_t resource, Tick work) { busy_[static_cast<std::size_t>(resource)] += work; }
  void add_queued(std::int32_t resource, Tick wait) { queued_[static_cast<std::size_t>(resource)] += wait; }
  const std::vector<Tick>& busy() const { return busy_; }
  const std::vector<Tick>& queued() const { return queued_; }

 private:
  static std::int32_t count(const Machine& machine, Scope scope) {
    switch (scope) {
      case Scope::kSubpartition: return machine.sms * machine.subpartitions;
      case Scope::kSm: return machine.sms;
      case Scope::kTpc: return (machine.sms + 1) / 2;
      case Scope::kGpc: return static_cast<std::int32_t>(machine.gpc_end.size());
      case Scope::kChip: return 1;
    }
    return 1;
  }

  std::vector<Tick> free_, busy_, queued_;
};

}  // namespace gtsim
