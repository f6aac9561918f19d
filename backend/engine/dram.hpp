// Device memory: what the L2 reads and writes back. Two models of one set of parameters.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace gtsim {

// A data bus that reads and writes share. It serves in the order of arrival; a mix of both costs turnarounds.
class DramBus {
 public:
  // `slowdown`: how many such buses the chip has, each with its share of the bandwidth.
  DramBus(const Machine& machine, std::int64_t slowdown)
      : q16_(machine.dram_q16 * slowdown), turn_q16_(machine.dram_turn_q16 * slowdown), window_(kRecentBytes / slowdown) {}

  // When the bus begins with these bytes.
  Tick reserve(Tick now, std::int64_t bytes, bool write, Tick more = 0) {
    (write ? written_ : read_) += bytes;
    const std::int64_t total = written_ + read_, mixed = 2 * std::min(written_, read_);
    work_ = scaled(bytes, q16_) + scaled(mixed > 0 ? bytes * mixed / total : 0, turn_q16_) + more;  // a bus may get no byte at all
    if (total > window_) {
      written_ /= 2;
      read_ /= 2;
    }
    const Tick start = std::max(now, free_);
    free_ = start + work_;
    return start;
  }
  Tick work() const { return work_; }  // of the latest reservation
  // What it still has to do at `end`.
  Tick left(Tick end) const { return std::max<Tick>(free_ - end, 0); }

 private:
  static constexpr std::int64_t kRecentBytes = 1 << 20;  // of the whole chip: over which the mix of reads and writes is taken
  std::int64_t q16_, turn_q16_, window_, read_ = 0, written_ = 0;
  Tick free_ = 0, work_ = 0;
};

// The channels behind one group of slices, line by line: banks that hold one row open.
//
// A controller serves requests for an open row first (first ready, first come). Here each request is answered as it comes: one for
// a row that the bank is serving, or has yet to serve, joins it; another row waits until the bank is done with those before, and
// for its row cycle. The bus meanwhile serves other banks.
class DramChannels {
 public:
  DramChannels(const Machine& machine, std::int32_t groups)
      : config_(machine.dram), latency_(machine.dram_latency),
        region_(static_cast<std::uint64_t>(config_.channels) * static_cast<std::uint64_t>(config_.row_lines)),
        channels_(static_cast<std::size_t>(config_.channels / groups), Channel{DramBus(machine, config_.channels), {}}) {
    for (Channel& c : channels_) c.banks.resize(static_cast<std::size_t>(config_.banks));
  }

  struct Answer {
    Tick first, last;  // when the first and the last byte are there
    Tick work;         // of the bus
  };

  // `line` lives behind partition `partition` of its group.
  Answer access(std::uint64_t line, std::int32_t partition, std::int64_t bytes, Tick now, bool write) {
    Channel& channel = channel_of(line, partition);
    const std::uint64_t row = line / region_;
    const auto banks = static_cast<std::uint64_t>(config_.banks);
    Bank& bank = channel.banks[(row ^ (row / banks) ^ (row / banks / banks)) % banks];
    const Tick slot = channel.bus.reserve(now, bytes, write), work = channel.bus.work();
    Row* open = bank.find(row, now);
    if (open == nullptr) {
      const Row& before = bank.rows[bank.newest];
      const Tick activate = before.number == kNone ? now : std::max({now, before.activated + config_.row_cycle - config_.precharge, before.done}) + config_.precharge;
      bank.newest = (bank.newest + 1) % kRows;
      open = &bank.rows[bank.newest];
      *open = {row, activate, activate};
    }
    const Tick start = std::max(slot, open->activated + config_.activate);
    open->done = std::max(open->done, start + work);
    const Tick first = start - config_.activate + latency_;  // the latency is that of a row that must be opened
    return {first, first + work, work};
  }

  // What the channels still have to do at `end`, together.
  Tick left(Tick end) const {
    Tick sum = 0;
    for (const Channel& c : channels_) sum += c.bus.left(end);
    return sum;
  }

  // Write back `bytes` of lines that nobody knows the addresses of; they are neighbours.
  Tick write_anywhere(std::int64_t bytes, Tick now) {
    Channel& channel = channels_[next_++ % channels_.size()];
    channel.bus.reserve(now, bytes, true);
    return channel.bus.work();
  }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::size_t kRows = 4;  // rows of a bank with requests at a time
  struct Row {
    std::uint64_t number = kNone;
    Tick activated = 0, done = 0;  // `done`: after its last request so far
  };
  struct Bank {
    std::array<Row, kRows> rows;
    std::size_t newest = 0;

    // The row if it is open at `now`, or will be.
    Row* find(std::uint64_t number, Tick now) {
      for (std::size_t i = 0; i < kRows; ++i)
        if (rows[i].number == number && (i == newest || now < rows[i].done)) return &rows[i];
      return nullptr;
    }
  };
  struct Channel {
    DramBus bus;
    std::vector<Bank> banks;
  };

  Channel& channel_of(std::uint64_t line, std::int32_t partition) {
    const std::uint64_t fold = line ^ (line >> 7) ^ (line >> 14) ^ (line >> 21);
    return channels_[(static_cast<std::uint64_t>(partition) + (fold & ~std::uint64_t{1})) % channels_.size()];
  }

  const DramConfig& config_;
  Tick latency_;
  std::uint64_t region_;  // lines whose rows have the same number: one row of every channel
  std::vector<Channel> channels_;
  std::size_t next_ = 0;
};

// For runs of lines: which rows are open, of all channels alike. A run counts as its first line.
class OpenRows {
 public:
  explicit OpenRows(const Machine& machine)
      : region_(std::int64_t{machine.dram.channels} * machine.dram.row_lines * machine.line_bytes),
        banks_(static_cast<std::uint64_t>(machine.dram.banks)), rows_(machine.by_line ? 0 : banks_ * kRows, -1) {}

  // Whether the row of `address` was open; it is from now on.
  bool touch(std::int64_t address) {
    const std::int64_t row = address / region_;
    const auto number = static_cast<std::uint64_t>(row);
    std::int64_t* bank = &rows_[(number ^ (number / banks_) ^ (number / banks_ / banks_)) % banks_ * kRows];
    for (std::size_t i = 0; i < kRows; ++i)
      if (bank[i] == row) return true;
    std::copy_backward(bank, bank + kRows - 1, bank + kRows);
    bank[0] = row;
    return false;
  }

 private:
  static constexpr std::size_t kRows = 4;  // rows of a bank with requests at a time
  std::int64_t region_;
  std::uint64_t banks_;
  std::vector<std::int64_t> rows_;  // [banks][kRows], the latest first
};

}  // namespace gtsim
