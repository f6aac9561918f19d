// Runs one kernel that TileLang compiled: what the generated source hands over, and the loop around it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kit.hpp"

namespace kit {

struct Argument {
  std::string name, dtype;
  std::size_t elements = 0, bytes = 0;
  std::vector<int> given;   // contents, for integers that steer control flow; else random
};

struct Kernel {
  std::vector<std::pair<std::string, std::string>> columns;   // of its row: op, case, dtype, m, n, k, ...
  std::vector<Argument> arguments;
  int kernels = 1;   // that one call launches
  std::string source;
  int (*init)();
  int (*call)(void* const* pointers);
  const char* (*last_error)();
};

// Allocates, fills, warms up, times with a cold L2 and prints a row. `main` of each kernel's program returns it.
int run_kernel(const Kernel& kernel);

}  // namespace kit
