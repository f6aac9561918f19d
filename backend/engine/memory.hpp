// The memory system behind the SMs: L2 and DRAM as seen by one run of requests, line by line or by runs of lines.
#pragma once
#include "bulk_memory.hpp"
#include "line_memory.hpp"
#include "warm.hpp"
#include "window.hpp"

namespace gtsim {

// Requests come in the order of time, then SM.
class MemorySystem {
 public:
  using Window = gtsim::Window;

  // Part `number` of `parts` that share nothing; runs of lines have one part.
  MemorySystem(const Program& program, Servers& servers, Traffic& traffic, std::size_t number, std::size_t parts)
      : by_line_(program.machine.by_line), bulk_(program, servers, traffic), line_(program.machine, servers, traffic, number, parts) {
    if (program.carried) {
      if (by_line_) line_.carry(program.before);
      else bulk_.carry(program);
      return;
    }
    if (!program.machine.l2_config.warm) return;
    for (const std::int32_t tensor : tensors_read(program)) {
      if (by_line_) line_.warm(program.tensors[static_cast<std::size_t>(tensor)]);
      else bulk_.warm(tensor);
    }
  }

  static std::int64_t write_bytes(const Piece& piece, std::int32_t request_bytes) { return gtsim::write_bytes(piece, request_bytes); }

  // Have fetched into the cache where `piece` of an SM will be looked up, later what it will be found to be, then what that changes.
  void look_up(const Piece& piece, std::int32_t sm) const { by_line_ ? line_.look_up(piece, sm) : bulk_.look_up(piece, sm); }
  void look_at(const Piece& piece) const { by_line_ ? line_.look_at(piece) : bulk_.look_at(piece); }
  void look_around(const Piece& piece) const { by_line_ ? line_.look_around(piece) : bulk_.look_around(piece); }

  // Requests of `piece` leave the SM from `first` to `last`; the data is back within the returned window.
  Window load(const Piece& piece, std::int32_t sm, Tick first, Tick last) {
    return by_line_ ? line_.load(piece, sm, first, last) : bulk_.load(piece, sm, first, last);
  }

  // Data of `piece` reaches the L2 from `first` to `last` in requests of `request_bytes` on the wire; returns when it has
  // been taken (first) and when the SM could know (last).
  Window store(const Piece& piece, std::int32_t request_bytes, Tick first, Tick last, bool atomic) {
    return by_line_ ? line_.store(piece, request_bytes, first, last, atomic) : bulk_.store(piece, request_bytes, first, last, atomic);
  }

  // What is left in the L2 in the end.
  void leave(L2Contents& out) {
    if (by_line_) line_.leave(out);
    else bulk_.leave(out);
  }

  Tick dram_busy() const { return bulk_.dram_busy() + line_.dram_busy() + skipped_busy_; }
  // What DRAM still has to do at `end`, the end of the run: write back what was evicted last.
  Tick dram_left(Tick end) const { return by_line_ ? line_.dram_left(end) : bulk_.dram_left(end); }
  void add_dram_busy(Tick work) { skipped_busy_ += work; }

 private:
  bool by_line_;
  BulkMemory bulk_;
  LineMemory line_;
  Tick skipped_busy_ = 0;
};

}  // namespace gtsim
