// Memory stages: how the pieces of a tile travel between an SM and the memory system.
#include <algorithm>
#include <stdexcept>

#include "memory.hpp"
#include "shard.hpp"

namespace gtsim {

std::int32_t Shard::new_transfer() {
  if (free_transfers_.empty()) {
    transfers_.emplace_back();
    return static_cast<std::int32_t>(transfers_.size() - 1);
  }
  const std::int32_t id = free_transfers_.back();
  free_transfers_.pop_back();
  return id;
}

void Shard::start_transfer(Slot& slot, std::int32_t node, Tick when) {
  const Template& t = *slot.shape;
  const NodeState& state = (*slot.nodes)[node];
  const Stage& stage = stage_of(slot, state);
  const MemoryAccess& access = chip_.program.memory[static_cast<std::size_t>(stage.memory)];
  const std::int32_t tile = t.tile_ptr[static_cast<std::size_t>(state.at)] + access.tile;
  scratch_.clear();
  expand(chip_.program, t, tile, state.run,
         chip_.program.columns.data() + static_cast<std::ptrdiff_t>(slot.instance) * chip_.program.columns_width, access, scratch_,
         piece_cache_[static_cast<std::size_t>(slot.shape_index)][static_cast<std::size_t>(tile)]);
  if (scratch_.empty()) {  // wholly outside the tensor: nothing moves
    next_stage(slot, node, when + access.launch + stage.latency);
    return;
  }
  Tick launch = access.launch;
  if (access.needs >= 0)
    launch += core(slot.sm).fetched.wait(access.needs, access.fetch, when, static_cast<std::size_t>(chip_.machine.first_touch_entries));
  const std::int32_t id = new_transfer();
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  transfer.place = place_of(slot);
  transfer.node = node;
  transfer.sm = slot.sm;
  transfer.access = &access;
  transfer.left = static_cast<std::int32_t>(scratch_.size());
  transfer.next = transfer.chunk = 0;
  transfer.pieces.swap(scratch_);
  transfer.since = when + launch;
  transfer.end = when;
  if (access.direction == Direction::kLoad) {
    core(slot.sm).pools[static_cast<std::size_t>(access.pool)].loading.push_back(id);
    pump(slot.sm, access.pool);
  } else {
    queue_.push(transfer.since, Event::pack(kStore, 0, id));
  }
}

// Piece `number` leaves for the L2; its first request is there at `when`.
void Shard::request(std::int32_t number, const Piece& piece, Tick when) {
  Outbox& box = (*sent_)[chip_.route.of(piece)];
  box.requests.push_back({when, number});
  box.first = std::min(box.first, when);
}

// Send requests of the loads that wait, as lines in flight end: now or, where that is known, very soon.
void Shard::pump(std::int32_t sm, std::int32_t pool_index) {
  Pool& pool = core(sm).pools[static_cast<std::size_t>(pool_index)];
  Credits& lines = pool.loads;
  const std::int64_t most = chip_.machine.pool_lines[static_cast<std::size_t>(pool_index)];
  lines.settle(now_);
  while (!pool.loading.empty()) {
    const std::int32_t id = pool.loading.front();
    Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
    const MemoryAccess& access = *transfer.access;
    while (transfer.next < static_cast<std::int32_t>(transfer.pieces.size())) {
      const Piece& piece = transfer.pieces[static_cast<std::size_t>(transfer.next)];
      Tick from = std::max(now_, transfer.since);
      while (lines.in_flight > 0 && lines.in_flight + piece.lines > most) {
        if (!lines.ending()) return;
        const Tick freed = lines.next();
        if (freed > now_ + kSoon) {
          if (pool.pumps <= now_ || pool.pumps > freed) {
            pool.pumps = freed;
            queue_.push(freed, Event::pack(kPump, sm, pool_index));
          }
          return;
        }
        from = std::max(from, lines.drop());
      }
      lines.in_flight += piece.lines;
      const Tick work = scaled(piece.requests, access.front_q16);
      const Tick start = servers.reserve(access.front, sm, from, work);
      const std::int32_t p = pieces.take();
      PieceState& state = pieces[p];
      const std::int32_t chunks = (piece.lines + chip_.machine.chunk_lines - 1) / chip_.machine.chunk_lines;
      const Tick first = start + work / piece.requests + chip_.forward;
      state = {piece, &access, id, sm, 0, chunks, first, start + work + chip_.forward};
      request(p, piece, first);
      ++transfer.next;
    }
    pool.loading.pop_front();
  }
}

void Shard::answer(const Answer& answer) {
  const auto [when, id, load] = answer;
  if (load) {
    returns_.add(when, queue_.number(), id);
    return;
  }
  const PieceState& state = pieces[id];
  end = std::max(end, when);
  Pool& pool = core(state.sm).pools[static_cast<std::size_t>(state.access->pool)];
  pool.stores.end(when, state.piece.lines);
  pieces.give_back(id);
  if (!pool.storing.empty() && !pool.resumes) {
    pool.resumes = true;
    queue_.push(std::max(pool.stores.next(), now_), Event::pack(kResume, state.sm, state.access->pool));
  }
}

// A chunk of a piece comes back: it queues for the port of the SM and enters the SM's memory.
void Shard::returned(std::int32_t id, Tick now) {
  PieceState& state = pieces[id];
  const MemoryAccess& access = *state.access;
  const std::int32_t sm = state.sm, pool_index = access.pool;
  Pool& pool = core(sm).pools[static_cast<std::size_t>(pool_index)];
  for (;; now_ = now) {
    const Tick port = scaled(state.part(state.piece.sector_bytes), access.port_q16);
    Tick through = now;
    if (access.receivers != 0 && chip_.machine.network.mesh) {  // one SM takes it and passes it on to the others
      const Tick start = servers.reserve(access.port, sm, now, port);
      through = std::max(start + port, multicast(state, start));
    } else {
      through = enter(access.port, state, now, port);
    }
    Tick done = through;
    if (access.has_sink) done = std::max(done, enter(access.sink, state, now, scaled(state.part(state.piece.bytes), access.sink_q16)));
    const Tick nominal = state.first + share(state.last - state.first, state.chunk + 1, state.chunks);
    // Lines end one after the other while the chunk comes in: on average, in the middle of it.
    const std::int32_t lines = state.part(state.piece.lines);
    const Tick spread = std::max(done, nominal) - now;
    pool.loads.end(now + share(spread, lines + 1, 2 * lines), lines);
    if (++state.chunk == state.chunks) {
      come_in(state.transfer, id, std::max(done, nominal));
      break;
    }
    now = std::max(nominal, through);
    if (!pool.loading.empty() || !undisturbed(now)) {
      queue_.push(now, Event::pack(kReturn, 0, id));
      break;
    }
  }
  if (!pool.loading.empty()) pump(sm, pool_index);
}

// The data of a piece enters the memory of its SM, or of every SM that receives it; returns when it has.
Tick Shard::enter(const Use& use, const PieceState& state, Tick now, Tick work) {
  return (state.access->receivers == 0 ? servers.reserve(use, state.sm, now, work) : reserve_everywhere(use, state, now, work)) + work;
}

// A piece of a transfer has come in, or will have at `when`.
void Shard::come_in(std::int32_t transfer_id, std::int32_t piece, Tick when) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(transfer_id)];
  transfer.end = std::max(transfer.end, when);
  pieces.give_back(piece);
  if (--transfer.left > 0) return;
  const MemoryAccess& access = *transfer.access;
  Slot& slot = slot_at(transfer.place);
  const std::int32_t node = transfer.node;
  const Tick latency = stage_of(slot, (*slot.nodes)[node]).latency;
  const Tick finish = transfer.end + (access.receivers == 0 ? latency : std::max<Tick>(latency + multicast_detour(access, slot), 0));
  free_transfers_.push_back(transfer_id);
  next_stage(slot, node, finish);
}

// A chunk of a store leaves the SM: out of its memory, through the unit that makes requests and the port, on to the L2. The store
// completes when its last chunk has left; what the L2 cannot take yet backs up into the SM, as lines in flight.
void Shard::store_chunk(std::int32_t id, Tick now) {
  Transfer& transfer = transfers_[static_cast<std::size_t>(id)];
  const MemoryAccess& access = *transfer.access;
  const std::int32_t sm = transfer.sm;
  Pool& pool = core(sm).pools[static_cast<std::size_t>(access.pool)];
  const Piece& whole = transfer.pieces[static_cast<std::size_t>(transfer.next)];
  PieceState state{whole, &access, id, sm, transfer.chunk,
                   (whole.lines + chip_.machine.store_chunk_lines - 1) / chip_.machine.store_chunk_lines, now, now};
  Piece& piece = state.piece;
  piece.lines = state.part(whole.lines);
  if (!room(sm, access.pool, piece.lines)) {
    pool.storing.push_back(id);
    return;
  }
  pool.stores.in_flight += piece.lines;
  piece.bytes = state.part(whole.bytes);
  piece.sector_bytes = state.part(whole.sector_bytes);
  piece.requests = state.part(whole.requests);
  const Tick front = scaled(piece.requests, access.front_q16);
  const Tick start = servers.reserve(access.front, sm, now, front);
  Tick out = start + front;
  if (access.has_sink) {
    const Tick work = scaled(piece.bytes, access.sink_q16);
    out = std::max(out, servers.reserve(access.sink, sm, start, work) + work);
  }
  const Tick port = scaled(MemorySystem::write_bytes(piece, access.write_bytes), access.port_q16);
  const Tick left = servers.reserve(access.port, sm, start, port) + port;
  out = std::max(out, left);
  state.first = start + port / piece.requests + chip_.forward;  // the first request; the rest follows it
  state.last = out + chip_.forward;
  const std::int32_t p = pieces.take();
  pieces[p] = state;
  request(p, piece, state.first);
  transfer.end = std::max(transfer.end, out);
  if (++transfer.chunk == state.chunks) {
    transfer.chunk = 0;
    ++transfer.next;
  }
  if (transfer.next < static_cast<std::int32_t>(transfer.pieces.size())) {
    queue_.push(std::max(start + front, left), Event::pack(kStore, 0, id));
    return;
  }
  Slot& slot = slot_at(transfer.place);
  const std::int32_t node = transfer.node;
  const Tick finish = transfer.end + stage_of(slot, (*slot.nodes)[node]).latency;
  free_transfers_.push_back(id);
  next_stage(slot, node, finish);
}

// Whether a store of so many lines may leave now; otherwise an event will go on with those that wait.
bool Shard::room(std::int32_t sm, std::int32_t pool_index, std::int32_t lines) {
  Pool& pool = core(sm).pools[static_cast<std::size_t>(pool_index)];
  Credits& stores = pool.stores;
  stores.settle(now_);
  if (stores.in_flight == 0 || stores.in_flight + lines <= chip_.machine.pool_lines[static_cast<std::size_t>(pool_index)]) return true;
  if (!pool.resumes && stores.ending()) {
    pool.resumes = true;
    queue_.push(stores.next(), Event::pack(kResume, sm, pool_index));
  }
  return false;
}

// Lines of stores have ended: those that wait go on, in the order in which they came.
void Shard::resume(std::int32_t sm, std::int32_t pool_index) {
  Pool& pool = core(sm).pools[static_cast<std::size_t>(pool_index)];
  pool.resumes = false;
  for (std::size_t left = pool.storing.size(); left > 0 && !pool.resumes; --left) {
    const std::int32_t id = pool.storing.front();
    pool.storing.pop_front();
    store_chunk(id, now_);
  }
}

}  // namespace gtsim
