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
    for (std::size_t g = 0; g < machine.gpc_end.size(); ++g) gpc_.resize(static_cast<std::size_t>(machine.gpc_end[g]), static_cast<std::int32_t>(g));
  }

  // Fill in where the servers of `use` are; `sub` is the sub-partition for resources of that scope.
  static void place(Use& use, const Machine& machine, std::int32_t sub) {
    use.server = 0;
    for (std::int32_t r = 0; r < use.resource; ++r) use.server += count(machine, machine.scopes[static_cast<std::size_t>(r)]);
    use.per_sm = 1;
    use.shift = 0;
    use.gates = machine.scopes[static_cast<std::size_t>(use.resource)] == Scope::kSubpartition;
    switch (machine.scopes[static_cast<std::size_t>(use.resource)]) {
      case Scope::kSubpartition:
        use.server += sub;
        use.per_sm = machine.subpartitions;
        break;
      case Scope::kSm: break;
      case Scope::kTpc: use.shift = 1; break;
      case Scope::kGpc: use.shift = kByTable; break;
      case Scope::kChip: use.per_sm = 0; break;
    }
  }

  Tick& free_at(const Use& use, std::int32_t sm) {
    const std::int32_t at = use.shift == kByTable ? gpc_[static_cast<std::size_t>(sm)] : sm * use.per_sm >> use.shift;
    return free_[static_cast<std::size_t>(use.server + at)];
  }

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
  static constexpr std::int32_t kByTable = -1;  // GPCs differ in size
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
  std::vector<std::int32_t> gpc_;  // [SMs]
};

}  // namespace gtsim
