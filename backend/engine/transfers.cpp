// Memory stages of the engine: how the pieces of a tile travel between an SM and the memory system.
#include <algorithm>

#include "engine.hpp"

namespace gtsim {

std::int32_t Engine::new_transfer() {
  if (free_transfers_.empty()) {
    transfers_.emplace_back();
    return static_cast<std::int32_t>(transfers_.size() - 1);
  }
  const std::int32_t id = free_transfers_.back();
  free_transfers_.pop_back();
  return id;
}

std::int32_t Engine::new_piece() {
  if (free_pieces_.empty()) {
    pieces_.emplace_back();
    return static_cast<std::int32_t>(pieces_.size() - 1);
  }
  const std::int32_t id = free_pieces_.back();
  free_pieces_.pop_back();
  return id;
}

void Engine::start_transfer(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick now) {
  const Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const Template& t = *slot.shape;
  const MemoryAccess& access = program_.memory[static_cast<std::size_t>(stage_of(slot, node).memory)];
  scratch_.clear();
  expand(program_, t, t.tile_ptr[static_cast<std::size_t>(node)] + access.tile,
         program_.columns.data() + static_cast<std::ptrdiff_t>(slot.instance) * program_.columns_width, access, scratch_);
  if (scratch_.empty()) {  // wholly outside the tensor: nothing moves
    queue_.push(now + access.launch + stage_of(slot, node).latency, kStageDone, sm, slot_index, node);
    return;
  }
  const std::int32_t id = new_transfer();
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  transfer.sm = sm;
  transfer.slot = slot_index;
  transfer.node = node;
  transfer.access = &access;
  transfer.left = static_cast<std::int32_t>(scratch_.size());
  transfer.next = transfer.chunk = 0;
  transfer.end = now;
  if (access.direction == Direction::kLoad) {
    auto& waiting = sms_[static_cast<std::size_t>(sm)].waiting[static_cast<std::size_t>(access.pool)];
    for (const Piece& piece : scratch_) {
      const std::int32_t p = new_piece();
      pieces_[static_cast<std::size_t>(p)] = {piece, &access, id, sm, 0, 1, 0, 0};
      waiting.push_back({p, now + access.launch});
    }
    pump(sm, access.pool, now);
  } else {
    transfer.pieces.assign(scratch_.begin(), scratch_.end());
    queue_.push(now + access.launch, kStore, sm, id, 0);
  }
}

// Send requests of waiting pieces while the pool of lines in flight has room.
void Engine::pump(std::int32_t sm, std::int32_t pool, Tick now) {
  Sm& core = sms_[static_cast<std::size_t>(sm)];
  auto& waiting = core.waiting[static_cast<std::size_t>(pool)];
  std::int64_t& in_flight = core.in_flight[static_cast<std::size_t>(pool)];
  while (!waiting.empty()) {
    const Wait wait = waiting.front();
    PieceState& state = pieces_[static_cast<std::size_t>(wait.piece)];
    const std::int64_t lines = state.piece.lines;
    if (in_flight > 0 && in_flight + lines > machine_.pool_lines[static_cast<std::size_t>(pool)]) return;
    waiting.pop_front();
    in_flight += lines;
    const MemoryAccess& access = *state.access;
    const Tick work = scaled(state.piece.requests, access.front_q16);
    const Tick start = servers_.reserve(access.front, sm, 0, std::max(now, wait.since), work);
    state.first = start + work / state.piece.requests;
    state.last = start + work;
    queue_.push(state.first, kL2, sm, wait.piece, 0);
  }
}

void Engine::at_l2(std::int32_t id, Tick now) {
  PieceState& state = pieces_[static_cast<std::size_t>(id)];
  if (state.access->direction != Direction::kLoad) {
    outcome_.end = std::max(outcome_.end, memory_.store(state.piece, now, state.access->direction == Direction::kAtomic));
    free_pieces_.push_back(id);
    return;
  }
  const MemorySystem::Window window = memory_.load(state.piece, state.sm, now, state.last);
  state.first = window.first;
  state.last = window.last;
  state.chunks = (state.piece.lines + machine_.chunk_lines - 1) / machine_.chunk_lines;
  queue_.push(state.first, kReturn, state.sm, id, 0);
}

// A chunk of a piece comes back: through the port of the SM and into its memory.
void Engine::returned(std::int32_t id, Tick now) {
  PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const MemoryAccess& access = *state.access;
  const std::int32_t sm = state.sm;
  const std::int32_t at = state.chunk++, chunks = state.chunks;
  const auto part = [&](std::int64_t amount) { return amount * (at + 1) / chunks - amount * at / chunks; };
  const Tick port_work = scaled(part(state.piece.sector_bytes), access.port_q16);
  const Tick start = servers_.reserve(access.port, sm, 0, now, port_work);
  Tick end = start + port_work;
  if (access.sink >= 0) {
    const Tick work = scaled(part(state.piece.bytes), access.sink_q16);
    end = std::max(end, servers_.reserve(access.sink, sm, 0, start, work) + work);
  }
  const Tick nominal = state.first + (state.last - state.first) * (at + 1) / chunks;
  if (at + 1 < chunks) {
    queue_.push(std::max(nominal, start + port_work), kReturn, sm, id, 0);
  } else {
    queue_.push(std::max(end, nominal), kPieceDone, sm, id, 0);
  }
}

void Engine::piece_done(std::int32_t id, Tick now) {
  const PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const std::int32_t transfer_id = state.transfer;
  Transfer& transfer = transfers_[static_cast<std::size_t>(transfer_id)];
  const std::int32_t pool = transfer.access->pool, sm = transfer.sm;
  sms_[static_cast<std::size_t>(sm)].in_flight[static_cast<std::size_t>(pool)] -= state.piece.lines;
  free_pieces_.push_back(id);
  if (--transfer.left == 0) {
    const Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(transfer.slot)];
    const Tick latency = stage_of(slot, transfer.node).latency;
    const std::int32_t slot_index = transfer.slot, node = transfer.node;
    free_transfers_.push_back(transfer_id);
    if (latency == 0) {
      next_stage(sm, slot_index, node, now);
    } else {
      queue_.push(now + latency, kStageDone, sm, slot_index, node);
    }
  }
  pump(sm, pool, now);
}

// A chunk of a store leaves the SM: out of its memory, through the unit that makes requests and the port.
void Engine::store_piece(std::int32_t id, Tick now) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  const MemoryAccess& access = *transfer.access;
  const Piece& piece = transfer.pieces[static_cast<std::size_t>(transfer.next)];
  const std::int32_t chunks = (piece.lines + machine_.chunk_lines - 1) / machine_.chunk_lines, at = transfer.chunk++;
  const auto part = [&](std::int64_t amount) { return amount * (at + 1) / chunks - amount * at / chunks; };
  const Tick front = scaled(part(piece.requests), access.front_q16);
  const Tick start = servers_.reserve(access.front, transfer.sm, 0, now, front);
  Tick end = start + front;
  if (access.sink >= 0) {
    const Tick work = scaled(part(piece.bytes), access.sink_q16);
    end = std::max(end, servers_.reserve(access.sink, transfer.sm, 0, start, work) + work);
  }
  const Tick port = scaled(part(std::max<std::int64_t>(std::int64_t{piece.requests} * access.write_bytes, piece.sector_bytes)), access.port_q16);
  const Tick left = servers_.reserve(access.port, transfer.sm, 0, start, port) + port;
  end = std::max(end, left);
  transfer.end = std::max(transfer.end, end);
  if (at + 1 == chunks) {
    const std::int32_t p = new_piece();
    pieces_[static_cast<std::size_t>(p)] = {piece, &access, -1, transfer.sm, 0, 1, end, end};
    queue_.push(end, kL2, transfer.sm, p, 0);
    transfer.chunk = 0;
    ++transfer.next;
  }
  if (transfer.next < static_cast<std::int32_t>(transfer.pieces.size())) {
    queue_.push(std::max(start + front, left), kStore, transfer.sm, id, 0);
    return;
  }
  const Slot& slot = sms_[static_cast<std::size_t>(transfer.sm)].slots[static_cast<std::size_t>(transfer.slot)];
  queue_.push(transfer.end + stage_of(slot, transfer.node).latency, kStageDone, transfer.sm, transfer.slot, transfer.node);
  free_transfers_.push_back(id);
}

}  // namespace gtsim
