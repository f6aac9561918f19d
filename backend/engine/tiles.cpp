#include "tiles.hpp"

#include <algorithm>
#include <array>

namespace gtsim {
namespace {

constexpr int kMaxRank = 8;
using Index = std::array<std::int64_t, kMaxRank>;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A box of a tensor seen as rows of contiguous bytes.
struct Rows {
  std::int64_t start = 0;      // byte address of the first row
  std::int64_t row_bytes = 0;  // contiguous bytes of a row
  int outer = 0;               // dimensions that enumerate rows
  Index count{}, stride{};     // rows a dimension and bytes between them
  std::int64_t rows = 1;
  bool aligned = true;         // all rows start at the same place within a line
};

Rows rows_of(const Tensor& tensor, const Index& low, const Index& high, bool merge, std::int64_t line) {
  Rows r;
  const int rank = tensor.rank;
  r.start = tensor.base;
  for (int d = 0; d < rank; ++d) r.start += low[d] * tensor.stride_bytes[static_cast<std::size_t>(d)] ;
  std::int64_t run = std::max<std::int64_t>(tensor.element_bits / 8, 1);
  int d = rank - 1;
  if (d >= 0 && tensor.stride_bytes[static_cast<std::size_t>(d)] == run) {
    run = ceil_div((high[d] - low[d]) * tensor.element_bits, 8);
    --d;
    while (merge && d >= 0 && (high[d] - low[d] == 1 || tensor.stride_bytes[static_cast<std::size_t>(d)] == run)) {
      run *= high[d] - low[d];
      --d;
    }
  }
  r.row_bytes = run;
  for (int i = 0; i <= d; ++i) {
    if (high[i] - low[i] == 1) continue;
    r.count[r.outer] = high[i] - low[i];
    r.stride[r.outer] = tensor.stride_bytes[static_cast<std::size_t>(i)];
    r.rows *= r.count[r.outer];
    r.aligned = r.aligned && r.stride[r.outer] % line == 0;
    ++r.outer;
  }
  return r;
}

template <typename Visit>
void for_each_row(const Rows& r, Visit visit) {
  Index at{};
  std::int64_t address = r.start;
  for (std::int64_t i = 0; i < r.rows; ++i) {
    visit(address);
    for (int d = r.outer - 1; d >= 0; --d) {
      address += r.stride[d];
      if (++at[d] < r.count[d]) break;
      address -= r.count[d] * r.stride[d];
      at[d] = 0;
    }
  }
}

// Lines, sectors and requests of one row that starts at `address`. Where the row continues one in the block before, the line
// and the sector that both have a part of belong to that one.
void count_row(std::int64_t address, std::int64_t bytes, std::int64_t line, std::int64_t sector, std::int64_t request, Piece& p,
               std::int64_t times, bool continued) {
  const auto units = [&](std::int64_t size) {
    return (address + bytes - 1) / size - address / size + (continued && address % size != 0 ? 0 : 1);
  };
  const std::int64_t lines = std::max<std::int64_t>(units(line), 1), sectors = units(sector);
  p.lines += static_cast<std::int32_t>(lines * times);
  p.sector_bytes += static_cast<std::int32_t>(sectors * sector * times);
  p.bytes += static_cast<std::int32_t>(bytes * times);
  p.requests += static_cast<std::int32_t>(std::max(lines, ceil_div(bytes, request)) * times);
}

// A read fetches whole sectors: requests smaller than one fetch the same sectors again.
void fetch_sectors(const MemoryAccess& access, std::int64_t sector, Piece& p) {
  if (access.direction == Direction::kLoad && access.request_bytes < sector) p.sector_bytes = static_cast<std::int32_t>(p.requests * sector);
}

void add_lines(const Rows& r, std::int64_t line, std::int64_t sector, const MemoryAccess& access, std::vector<Piece>& out) {
  std::int64_t begins = -1, ends = -1;  // of the latest piece, within its line
  for_each_row(r, [&](std::int64_t address) {
    const std::int64_t end = address + r.row_bytes;
    for (std::int64_t at = address / line; at * line < end; ++at) {
      const std::int64_t from = std::max(address, at * line), to = std::min(end, (at + 1) * line);
      if (from - at * line == begins && to - at * line == ends) {  // like that one
        out.push_back(out.back());
        out.back().key = static_cast<std::uint64_t>(at);
        continue;
      }
      begins = from - at * line;
      ends = to - at * line;
      Piece p{static_cast<std::uint64_t>(at), static_cast<std::int32_t>(line), 0, 0, 0, 0, 0};
      count_row(from, to - from, line, sector, access.request_bytes, p, 1, false);
      fetch_sectors(access, sector, p);
      for (std::int64_t s = (from - at * line) / sector; s * sector < to - at * line; ++s) p.mask |= 1u << s;
      out.push_back(p);
    }
  });
}

}  // namespace

void expand(const Program& program, const Template& t, std::int32_t tile_index, std::int32_t run, const std::int64_t* columns,
            const MemoryAccess& access, std::vector<Piece>& out, PieceCache& cache) {
  const auto tile = static_cast<std::size_t>(tile_index);
  const auto buffer = static_cast<std::size_t>(t.tile_buffer[tile]);
  const Tensor& tensor = program.tensors[buffer];
  const std::int64_t line = program.machine.line_bytes, sector = program.machine.sector_bytes;
  Index low{}, high{}, block{}, first{};
  std::int64_t blocks = 1, start = tensor.base;
  std::uint64_t first_key = 0;
  bool clipped = false;
  for (int d = 0; d < tensor.rank; ++d) {
    const auto i = tile * static_cast<std::size_t>(t.rank) + static_cast<std::size_t>(d);
    const std::int64_t moved = run > 0 ? run * t.tile_step[i] : 0;
    const std::int64_t origin = t.tile_offset[i] + moved + (t.tile_column[i] >= 0 ? columns[t.tile_column[i]] : 0);
    const auto ds = static_cast<std::size_t>(d);
    low[d] = std::clamp<std::int64_t>(origin, 0, tensor.shape[ds]);
    high[d] = std::clamp<std::int64_t>(origin + t.tile_extent[i], low[d], tensor.shape[ds]);
    if (high[d] == low[d]) return;
    clipped = clipped || high[d] - low[d] != t.tile_extent[i];
    start += low[d] * tensor.stride_bytes[ds];
    first[d] = low[d] / tensor.block[ds];
    block[d] = (high[d] - 1) / tensor.block[ds] - first[d] + 1;
    blocks *= block[d];
    first_key = first_key * static_cast<std::uint64_t>((tensor.shape[ds] + tensor.block[ds] - 1) / tensor.block[ds]) +
                static_cast<std::uint64_t>(first[d]);
  }
  const std::uint64_t owner = static_cast<std::uint64_t>(buffer) << 48;
  const bool whole = blocks == 1 && !clipped && !program.machine.by_line;
  if (whole && cache.phase == start % line) {
    out.push_back(cache.piece);
    out.back().key = first_key | owner;
    return;
  }
  if (program.machine.by_line) {
    add_lines(rows_of(tensor, low, high, access.merge_rows, line), line, sector, access, out);
    return;
  }
  Index at{};
  for (std::int64_t b = 0; b < blocks; ++b) {
    Index lo{}, hi{};
    std::uint64_t key = 0;
    std::int64_t elements = 1;  // of the whole block, whatever part of it is accessed
    for (int d = 0; d < tensor.rank; ++d) {
      const auto ds = static_cast<std::size_t>(d);
      const std::int64_t index = first[d] + at[d];
      lo[d] = std::max(low[d], index * tensor.block[ds]);
      hi[d] = std::min(high[d], (index + 1) * tensor.block[ds]);
      elements *= std::min(tensor.shape[ds], (index + 1) * tensor.block[ds]) - index * tensor.block[ds];
      key = key * static_cast<std::uint64_t>((tensor.shape[ds] + tensor.block[ds] - 1) / tensor.block[ds]) + static_cast<std::uint64_t>(index);
    }
    Piece p{key | owner, 0, 0, 0, 0, 0, kWholeBlock};
    const Rows r = rows_of(tensor, lo, hi, access.merge_rows, line);
    const bool continued = lo[tensor.rank - 1] > low[tensor.rank - 1];
    const auto count = [&](std::int64_t address, std::int64_t times) {
      count_row(address, r.row_bytes, line, sector, access.request_bytes, p, times, continued);
    };
    if (r.aligned) {
      count(r.start, r.rows);
    } else {
      for_each_row(r, [&](std::int64_t address) { count(address, 1); });
    }
    fetch_sectors(access, sector, p);
    p.footprint = static_cast<std::int32_t>(ceil_div(elements * tensor.element_bits, 8));
    out.push_back(p);
    if (whole && r.aligned) cache = {start % line, p};
    for (int d = tensor.rank - 1; d >= 0; --d) {
      if (++at[d] < block[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace gtsim
