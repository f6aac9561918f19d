// Which tensors a program reads: what a warm L2 holds when it starts.
#pragma once
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

// Indices of the tensors that any node of `program` loads, in order.
inline std::vector<std::int32_t> tensors_read(const Program& program) {
  std::vector<bool> read(program.tensors.size(), false);
  for (const Template& t : program.templates)
    for (std::size_t i = 0; i < t.info.size(); ++i)
      for (std::int32_t s = t.info[i].demand.stage_begin; s < t.info[i].demand.stage_end; ++s) {
        const Stage& stage = program.stages[static_cast<std::size_t>(s)];
        if (stage.kind != StageKind::kMemory) continue;
        const MemoryAccess& access = program.memory[static_cast<std::size_t>(stage.memory)];
        if (access.direction == Direction::kLoad)
          read[static_cast<std::size_t>(t.tile_buffer[static_cast<std::size_t>(t.tile_ptr[i] + access.tile)])] = true;
      }
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < read.size(); ++i)
    if (read[i]) out.push_back(static_cast<std::int32_t>(i));
  return out;
}

}  // namespace gtsim
