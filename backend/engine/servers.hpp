// Throughput resources. Every resource instance is a server: it is free again at some time and has been busy so long.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

// The servers as one part of the engine sees them: when each is free again stands in a table that all parts share, each part
// touching its own SMs' only; how long resources were busy and waited for is counted part by part.
class Servers {
 public:
  Servers(const Machine& machine, Tick* free) : free_(free), busy_(machine.scopes.size(), 0), queued_(machine.scopes.size(), 0) {}

  // Number of servers of the machine. Those of one SM lie together, those shared by SMs behind all of them.
  static std::size_t count(const Machine& machine) {
    std::int32_t total = machine.sms * per_sm(machine, machine.scopes.size());
    for (const Scope scope : machine.scopes)
      if (shared(scope)) total += machine.scope_size[static_cast<std::size_t>(scope)];
    return static_cast<std::size_t>(total);
  }

  // Fill in where the servers of `use` are; `sub` is the sub-partition for resources of that scope.
  static void place(Use& use, const Machine& machine, std::int32_t sub) {
    const auto resource = static_cast<std::size_t>(use.resource);
    const Scope scope = machine.scopes[resource];
    use.gates = scope == Scope::kSubpartition;
    use.by_sm = machine.by_sm[static_cast<std::size_t>(scope)].data();
    if (!shared(scope)) {
      use.server = per_sm(machine, resource) + (use.gates ? sub : 0);
      return;
    }
    use.server = machine.sms * per_sm(machine, machine.scopes.size());
    for (std::size_t r = 0; r < resource; ++r)
      if (shared(machine.scopes[r])) use.server += machine.scope_size[static_cast<std::size_t>(machine.scopes[r])];
  }

  // The tables that `place` points to.
  static void number(Machine& machine) {
    const std::int32_t stride = per_sm(machine, machine.scopes.size());
    std::int32_t gpc = 0, tpc = -1;
    for (std::int32_t sm = 0; sm < machine.sms; ++sm) {
      bool first = sm == 0;
      while (machine.gpc_end[static_cast<std::size_t>(gpc)] <= sm) {
        ++gpc;
        first = true;
      }
      const std::int32_t begin = gpc == 0 ? 0 : machine.gpc_end[static_cast<std::size_t>(gpc) - 1];
      if (first || (sm - begin) % 2 == 0) ++tpc;
      const std::array<std::int32_t, 5> at = {sm * stride, sm * stride, tpc, gpc, 0};
      for (std::size_t scope = 0; scope < at.size(); ++scope) machine.by_sm[scope].push_back(at[scope]);
    }
    machine.scope_size = {machine.sms * machine.subpartitions, machine.sms, tpc + 1, gpc + 1, 1};
  }

  // When the servers of `use` are all free.
  Tick free_at(const Use& use, std::int32_t sm) const {
    const Tick* free = servers_of(use, sm);
    Tick latest = *free;
    for (std::int32_t i = 1; i < use.width; ++i) latest = std::max(latest, free[i]);
    return latest;
  }

  void set_free(const Use& use, std::int32_t sm, Tick when) { std::fill_n(servers_of(use, sm), use.width, when); }

  // Serve `work` in the order of arrival; returns the (latest) start. The server is free again at its start + work.
  Tick reserve(const Use& use, std::int32_t sm, Tick now, Tick work) {
    Tick* free = servers_of(use, sm);
    Tick latest = now, waited = 0;
    for (std::int32_t i = 0; i < use.width; ++i) {
      const Tick start = std::max(now, free[i]);
      free[i] = start + work;
      latest = std::max(latest, start);
      waited += start - now;
    }
    busy_[static_cast<std::size_t>(use.resource)] += work * use.width;
    queued_[static_cast<std::size_t>(use.resource)] += waited;
    return latest;
  }

  void add_busy(std::int32_t resource, Tick work) { busy_[static_cast<std::size_t>(resource)] += work; }
  void add_queued(std::int32_t resource, Tick wait) { queued_[static_cast<std::size_t>(resource)] += wait; }
  const std::vector<Tick>& busy() const { return busy_; }
  const std::vector<Tick>& queued() const { return queued_; }

 private:
  static bool shared(Scope scope) { return scope != Scope::kSubpartition && scope != Scope::kSm; }

  // Servers that one SM has of the first `resources` resources.
  static std::int32_t per_sm(const Machine& machine, std::size_t resources) {
    std::int32_t total = 0;
    for (std::size_t r = 0; r < resources; ++r)
      total += machine.scopes[r] == Scope::kSubpartition ? machine.subpartitions : machine.scopes[r] == Scope::kSm ? 1 : 0;
    return total;
  }

  Tick* servers_of(const Use& use, std::int32_t sm) const { return free_ + use.server + use.by_sm[sm]; }

  Tick* free_;
  std::vector<Tick> busy_, queued_;
};

}  // namespace gtsim
