// Throughput resources. Every resource instance is a server: it is free again at some time and has been busy so long.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

class Servers {
 public:
  explicit Servers(const Machine& machine) : machine_(machine) {
    std::int32_t next = 0;
    for (const Scope scope : machine.scopes) {
      base_.push_back(next);
      next += instances(scope);
    }
    free_.assign(static_cast<std::size_t>(next), 0);
    busy_.assign(machine.scopes.size(), 0);
    queued_.assign(machine.scopes.size(), 0);
  }

  std::int32_t instances(Scope scope) const {
    switch (scope) {
      case Scope::kSubpartition: return machine_.sms * machine_.subpartitions;
      case Scope::kSm: return machine_.sms;
      case Scope::kTpc: return (machine_.sms + 1) / 2;
      case Scope::kGpc: return (machine_.sms + 15) / 16;
      case Scope::kChip: return 1;
    }
    return 1;
  }

  Tick& free_at(std::int32_t resource, std::int32_t sm, std::int32_t sub) { return free_[index(resource, sm, sub)]; }

  // Serve `work` in the order of arrival; returns the start. The resource is free again at the returned start + work.
  Tick reserve(std::int32_t resource, std::int32_t sm, std::int32_t sub, Tick now, Tick work) {
    Tick& free = free_at(resource, sm, sub);
    const Tick start = std::max(now, free);
    free = start + work;
    busy_[static_cast<std::size_t>(resource)] += work;
    queued_[static_cast<std::size_t>(resource)] += start - now;
    return start;
  }

  void add_busy(std::int32_t resource, Tick work) { busy_[static_cast<std::size_t>(resource)] += work; }
  void add_queued(std::int32_t resource, Tick wait) { queued_[static_cast<std::size_t>(resource)] += wait; }
  const std::vector<Tick>& busy() const { return busy_; }
  const std::vector<Tick>& queued() const { return queued_; }

 private:
  std::size_t index(std::int32_t resource, std::int32_t sm, std::int32_t sub) const {
    std::int32_t at = base_[static_cast<std::size_t>(resource)];
    switch (machine_.scopes[static_cast<std::size_t>(resource)]) {
      case Scope::kSubpartition: at += sm * machine_.subpartitions + sub; break;
      case Scope::kSm: at += sm; break;
      case Scope::kTpc: at += sm / 2; break;
      case Scope::kGpc: at += sm / 16; break;
      case Scope::kChip: break;
    }
    return static_cast<std::size_t>(at);
  }
  const Machine& machine_;
  std::vector<std::int32_t> base_;
  std::vector<Tick> free_, busy_, queued_;
};

}  // namespace gtsim
