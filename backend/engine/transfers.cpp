// Memory stages of the engine: how the pieces of a tile travel between an SM and the memory system.
#include <algorithm>
#include <stdexcept>

#include "engine.hpp"

namespace gtsim {

namespace {

// The index of an unused element of `pool`.
template <typename T>
std::int32_t take(std::vector<T>& pool, std::vector<std::int32_t>& unused) {
  if (!unused.empty()) {
    const std::int32_t id = unused.back();
    unused.pop_back();
    return id;
  }
  if (pool.size() > static_cast<std::size_t>(kMaxIndex)) throw std::runtime_error("too many memory requests at once");
  pool.emplace_back();
  return static_cast<std::int32_t>(pool.size() - 1);
}

}  // namespace

std::int32_t Engine::new_transfer() { return take(transfers_, free_transfers_); }
std::int32_t Engine::new_piece() { return take(pieces_, free_pieces_); }

void Engine::start_transfer(std::int32_t sm, std::int32_t slot_index, std::int32_t node, Tick when) {
  const Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(slot_index)];
  const Template& t = *slot.shape;
  const MemoryAccess& access = program_.memory[static_cast<std::size_t>(stage_of(slot, node).memory)];
  scratch_.clear();
  const NodeState& state = slot.nodes[static_cast<std::size_t>(node)];
  const std::int32_t tile = t.tile_ptr[static_cast<std::size_t>(state.at)] + access.tile;
  expand(program_, t, tile, state.run, program_.columns.data() + static_cast<std::ptrdiff_t>(slot.instance) * program_.columns_width, access,
         scratch_, piece_cache_[static_cast<std::size_t>(&t - program_.templates.data())][static_cast<std::size_t>(tile)]);
  if (scratch_.empty()) {  // wholly outside the tensor: nothing moves
    next_stage(sm, slot_index, node, when + access.launch + stage_of(slot, node).latency);
    return;
  }
  const std::int32_t id = new_transfer();
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  transfer.sm = sm;
  transfer.slot = slot_index;
  transfer.node = node;
  transfer.access = &access;
  transfer.next = transfer.chunk = 0;
  transfer.end = when;
  if (access.direction == Direction::kLoad) {
    transfer.left = static_cast<std::int32_t>(scratch_.size());
    auto& waiting = sms_[static_cast<std::size_t>(sm)].waiting[static_cast<std::size_t>(access.pool)];
    for (const Piece& piece : scratch_) {
      const std::int32_t p = new_piece();
      pieces_[static_cast<std::size_t>(p)] = {piece, &access, id, sm, 0, 1, 0, 0, 0};
      waiting.push_back({p, when + access.launch});
    }
    pump(sm, access.pool, now_);
  } else {
    transfer.left = 1;
    transfer.pieces.assign(scratch_.begin(), scratch_.end());
    queue_.push(when + access.launch, kStore, sm, id, 0);
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
    const Tick start = servers_.reserve(access.front, sm, std::max(now, wait.since), work);
    state.first = start + work / state.piece.requests;
    state.last = start + work;
    queue_.push(state.first, kL2, sm, wait.piece, 0);
  }
}

void Engine::at_l2(std::int32_t id, Tick now) {
  PieceState& state = pieces_[static_cast<std::size_t>(id)];
  if (state.access->direction != Direction::kLoad) {
    stored(id, now);
    return;
  }
  const MemorySystem::Window window = memory_.load(state.piece, state.sm, now, state.last);
  state.first = window.first;
  state.last = window.last;
  state.chunks = (state.piece.lines + machine_.chunk_lines - 1) / machine_.chunk_lines;
  queue_.push(state.first, kReturn, state.sm, id, 0);
}

// A piece of a store is at the L2. The store completes when the L2 has taken its last piece: what the L2 cannot take yet
// backs up into the SM.
void Engine::stored(std::int32_t id, Tick now) {
  const PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const MemorySystem::Window taken =
      memory_.store(state.piece, state.access->write_bytes, now, state.last, state.access->direction == Direction::kAtomic);
  outcome_.end = std::max(outcome_.end, taken.last);
  const std::int32_t transfer_id = state.transfer;
  Transfer& transfer = transfers_[static_cast<std::size_t>(transfer_id)];
  transfer.end = std::max(transfer.end, taken.first);
  free_pieces_.push_back(id);
  if (--transfer.left > 0) return;
  const Slot& slot = sms_[static_cast<std::size_t>(transfer.sm)].slots[static_cast<std::size_t>(transfer.slot)];
  const std::int32_t sm = transfer.sm, slot_index = transfer.slot, node = transfer.node;
  const Tick end = transfer.end + stage_of(slot, node).latency;
  free_transfers_.push_back(transfer_id);
  next_stage(sm, slot_index, node, end);
}

// A chunk of a piece comes back: it queues for the port of the SM and, as soon as it passes, enters the SM's memory.
void Engine::returned(std::int32_t id, Tick now) {
  PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const Tick work = scaled(state.part(state.piece.sector_bytes), state.access->port_q16);
  const Tick start = state.access->receivers == 0 ? servers_.reserve(state.access->port, state.sm, now, work)
                                                  : reserve_everywhere(state.access->port, state, now, work);
  state.through = start + work;
  if (start > now) {
    queue_.push(start, kDeposit, state.sm, id, 0);
  } else {
    deposit(id, now);
  }
}

void Engine::deposit(std::int32_t id, Tick now) {
  PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const MemoryAccess& access = *state.access;
  Tick end = state.through;
  if (access.has_sink) {
    const Tick work = scaled(state.part(state.piece.bytes), access.sink_q16);
    const Tick start = access.receivers == 0 ? servers_.reserve(access.sink, state.sm, now, work)
                                             : reserve_everywhere(access.sink, state, now, work);
    end = std::max(end, start + work);
  }
  const Tick nominal = state.first + (state.last - state.first) * (state.chunk + 1) / state.chunks;
  const std::int32_t lines = state.part(state.piece.lines), pool = access.pool, sm = state.sm;
  if (++state.chunk < state.chunks) {
    queue_.push(std::max(nominal, state.through), kReturn, sm, id, 0);
    sms_[static_cast<std::size_t>(sm)].in_flight[static_cast<std::size_t>(pool)] -= lines;
    pump(sm, pool, now);
  } else {
    queue_.push(std::max(end, nominal), kPieceDone, state.sm, id, 0);
  }
}

void Engine::piece_done(std::int32_t id, Tick now) {
  const PieceState& state = pieces_[static_cast<std::size_t>(id)];
  const std::int32_t transfer_id = state.transfer;
  Transfer& transfer = transfers_[static_cast<std::size_t>(transfer_id)];
  const std::int32_t pool = transfer.access->pool, sm = transfer.sm;
  sms_[static_cast<std::size_t>(sm)].in_flight[static_cast<std::size_t>(pool)] -= state.part(state.piece.lines);  // the last chunk
  free_pieces_.push_back(id);
  if (--transfer.left == 0) {
    const Slot& slot = sms_[static_cast<std::size_t>(sm)].slots[static_cast<std::size_t>(transfer.slot)];
    const Tick latency = stage_of(slot, transfer.node).latency;
    const std::int32_t slot_index = transfer.slot, node = transfer.node;
    free_transfers_.push_back(transfer_id);
    next_stage(sm, slot_index, node, now + latency);
  }
  pump(sm, pool, now);
}

// A chunk of a store leaves the SM: out of its memory, through the unit that makes requests and the port, on to the L2.
void Engine::store_piece(std::int32_t id, Tick now) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  const MemoryAccess& access = *transfer.access;
  const Piece& whole = transfer.pieces[static_cast<std::size_t>(transfer.next)];
  const std::int32_t chunks = (whole.lines + machine_.store_chunk_lines - 1) / machine_.store_chunk_lines;
  const std::int32_t p = new_piece();
  PieceState& state = pieces_[static_cast<std::size_t>(p)];
  state = {whole, &access, id, transfer.sm, transfer.chunk, chunks, now, now, now};
  Piece& piece = state.piece;
  piece.lines = state.part(whole.lines);
  piece.bytes = state.part(whole.bytes);
  piece.sector_bytes = state.part(whole.sector_bytes);
  piece.requests = state.part(whole.requests);
  const Tick front = scaled(piece.requests, access.front_q16);
  const Tick start = servers_.reserve(access.front, transfer.sm, now, front);
  Tick end = start + front;
  if (access.has_sink) {
    const Tick work = scaled(piece.bytes, access.sink_q16);
    end = std::max(end, servers_.reserve(access.sink, transfer.sm, start, work) + work);
  }
  const Tick port = scaled(MemorySystem::write_bytes(piece, access.write_bytes), access.port_q16);
  const Tick left = servers_.reserve(access.port, transfer.sm, start, port) + port;
  state.last = std::max(end, left);
  queue_.push(start + port / piece.requests, kL2, transfer.sm, p, 0);  // the first request; the rest follows it
  if (++transfer.chunk == chunks) {
    transfer.chunk = 0;
    ++transfer.next;
  }
  if (transfer.next < static_cast<std::int32_t>(transfer.pieces.size())) {
    ++transfer.left;  // the next chunk
    queue_.push(std::max(start + front, left), kStore, transfer.sm, id, 0);
  }
}

}  // namespace gtsim
