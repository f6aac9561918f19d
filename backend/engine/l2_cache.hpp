// Fully associative L2 with LRU replacement and write-back, over blocks of any size. A block is a 128-byte line, or in
// bulk fidelity a piece of a tensor that every access takes whole. `mask` says which sectors of a line are present. Copies of a
// block in other partitions come and go with it; they count in its footprint.
#pragma once
#include <cstdint>
#include <vector>

#include "fetch_ahead.hpp"
#include "time.hpp"

namespace gtsim {

class L2Cache {
 public:
  struct alignas(64) Block {  // one cache line
    std::uint64_t key;
    Tick ready;               // when its data arrives from DRAM
    Tick copied;              // when its latest copy is in another partition
    std::int32_t older, newer;
    std::int32_t footprint;   // bytes that it takes in the cache
    std::int32_t dirty;       // bytes to write back
    std::uint32_t mask, copies;  // copies: partitions other than its own that hold it too
  };

  explicit L2Cache(std::int64_t capacity) : capacity_(capacity) { rehash(1 << 8); }

  // The block, most recently used now; created empty (mask 0) if absent.
  Block& touch(std::uint64_t key, std::int32_t footprint) {
    std::size_t at = find(key);
    std::int32_t id = table_[at];
    if (id >= 0) {
      unlink(id);
    } else {
      if ((count_ + 1) * 2 > table_.size()) {
        rehash(table_.size() * 2);
        at = find(key);
      }
      id = allocate();
      blocks_[static_cast<std::size_t>(id)] = Block{key, 0, 0, -1, -1, footprint, 0, 0, 0};
      table_[at] = id;
      ++count_;
      used_ += footprint;
    }
    append(id);
    return blocks_[static_cast<std::size_t>(id)];
  }

  // Have fetched into the cache where `key` will be looked up, and later the block that is found there first.
  void look_up(std::uint64_t key) const { fetch_ahead(&table_[mix(key) & (table_.size() - 1)]); }
  void look_at(std::uint64_t key) const {
    const std::int32_t id = table_[mix(key) & (table_.size() - 1)];
    if (id >= 0) fetch_ahead(&blocks_[static_cast<std::size_t>(id)]);
  }
  // And its neighbours in the order of use.
  void look_around(std::uint64_t key) const {
    const std::int32_t id = table_[mix(key) & (table_.size() - 1)];
    if (id < 0) return;
    const Block& block = blocks_[static_cast<std::size_t>(id)];
    if (block.older >= 0) fetch_ahead(&blocks_[static_cast<std::size_t>(block.older)]);
    if (block.newer >= 0) fetch_ahead(&blocks_[static_cast<std::size_t>(block.newer)]);
  }

  std::int64_t used() const { return used_; }

  // All blocks, the least recently used first.
  template <typename Visit>
  void each(Visit visit) {
    for (std::int32_t id = oldest_; id >= 0; id = blocks_[static_cast<std::size_t>(id)].newer) visit(blocks_[static_cast<std::size_t>(id)]);
  }

  // `block` takes so many bytes more (fewer, if negative).
  void grow(Block& block, std::int32_t bytes) {
    block.footprint += bytes;
    used_ += bytes;
  }

  struct Evicted {
    std::uint64_t key;
    std::int64_t dirty;  // bytes to write back; -1: nothing was dropped
  };
  // Drop the least recently used block if the cache is over capacity.
  Evicted evict() {
    if (used_ <= capacity_ || oldest_ < 0 || oldest_ == newest_) return {0, -1};
    const std::int32_t id = oldest_;
    const Evicted out{blocks_[static_cast<std::size_t>(id)].key, blocks_[static_cast<std::size_t>(id)].dirty};
    used_ -= blocks_[static_cast<std::size_t>(id)].footprint;
    unlink(id);
    erase(find(blocks_[static_cast<std::size_t>(id)].key));
    free_.push_back(id);
    --count_;
    return out;
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15ull;
    return x ^ (x >> 29);
  }
  std::size_t find(std::uint64_t key) const {
    std::size_t at = mix(key) & (table_.size() - 1);
    while (table_[at] >= 0 && blocks_[static_cast<std::size_t>(table_[at])].key != key) at = (at + 1) & (table_.size() - 1);
    return at;
  }
  void erase(std::size_t hole) {
    std::size_t at = hole;
    for (;;) {
      table_[hole] = -1;
      for (;;) {
        at = (at + 1) & (table_.size() - 1);
        if (table_[at] < 0) return;
        const std::size_t home = mix(blocks_[static_cast<std::size_t>(table_[at])].key) & (table_.size() - 1);
        if (((at - home) & (table_.size() - 1)) >= ((at - hole) & (table_.size() - 1))) break;
      }
      table_[hole] = table_[at];
      hole = at;
    }
  }
  void rehash(std::size_t size) {
    std::vector<std::int32_t> old(size, -1);
    old.swap(table_);
    for (const std::int32_t id : old)
      if (id >= 0) table_[find(blocks_[static_cast<std::size_t>(id)].key)] = id;
  }
  std::int32_t allocate() {
    if (!free_.empty()) {
      const std::int32_t id = free_.back();
      free_.pop_back();
      return id;
    }
    blocks_.emplace_back();
    return static_cast<std::int32_t>(blocks_.size() - 1);
  }
  void unlink(std::int32_t id) {
    const Block& b = blocks_[static_cast<std::size_t>(id)];
    (b.older >= 0 ? blocks_[static_cast<std::size_t>(b.older)].newer : oldest_) = b.newer;
    (b.newer >= 0 ? blocks_[static_cast<std::size_t>(b.newer)].older : newest_) = b.older;
  }
  void append(std::int32_t id) {
    Block& b = blocks_[static_cast<std::size_t>(id)];
    b.older = newest_;
    b.newer = -1;
    (newest_ >= 0 ? blocks_[static_cast<std::size_t>(newest_)].newer : oldest_) = id;
    newest_ = id;
  }

  std::int64_t capacity_, used_ = 0;
  std::size_t count_ = 0;
  std::int32_t oldest_ = -1, newest_ = -1;
  std::vector<Block> blocks_;
  std::vector<std::int32_t> table_, free_;
};

}  // namespace gtsim
