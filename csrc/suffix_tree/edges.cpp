#include "suffix_tree/edges.h"

#include <algorithm>

namespace seer {

namespace {

constexpr uint32_t kInline = 1;
constexpr uint32_t kLargestList = 5;  // 16 slots
constexpr uint32_t kNoSlot = UINT32_MAX;
constexpr Edge kEmpty{0, kRoot, 0};

uint32_t capacity(uint32_t shape) { return 1u << (shape - 1); }
bool is_hashed(uint32_t shape) { return shape > kLargestList; }

// Edges that a block may hold: a hash table stays a quarter empty.
uint32_t room(uint32_t shape) {
  const uint32_t slots = capacity(shape);
  return is_hashed(shape) ? slots - slots / 4 : slots;
}

uint32_t home_slot(int32_t token, uint32_t shape) {
  return (static_cast<uint32_t>(token) * 2654435769u) >> (33 - shape);
}

// Slot of `token` in a hash table, or the empty slot where it belongs.
uint32_t probe(const Edge* slots, uint32_t shape, int32_t token) {
  const uint32_t mask = capacity(shape) - 1;
  uint32_t index = home_slot(token, shape);
  while (slots[index].target != kRoot && slots[index].token != token) index = (index + 1) & mask;
  return index;
}

}  // namespace

uint32_t EdgeStore::find_slot(const State& state, int32_t token) const {
  if (state.shape == 0) return kNoSlot;
  if (state.shape == kInline) return state.only.token == token ? 0 : kNoSlot;
  const Edge* slots = &edges_[state.block.first];
  if (is_hashed(state.shape)) {
    const uint32_t index = probe(slots, state.shape, token);
    return slots[index].target == kRoot ? kNoSlot : index;
  }
  for (uint32_t i = 0; i < state.block.degree; ++i) {
    if (slots[i].token == token) return i;
  }
  return kNoSlot;
}

Edge& EdgeStore::slot(State& state, uint32_t index) {
  return state.shape == kInline ? state.only : edges_[state.block.first + index];
}

const Edge* EdgeStore::find(const State& state, int32_t token) const {
  const uint32_t index = find_slot(state, token);
  return index == kNoSlot ? nullptr : &slots(state)[index];
}

std::span<const Edge> EdgeStore::slots(const State& state) const {
  if (state.shape == 0) return {};
  if (state.shape == kInline) return {&state.only, 1};
  const uint32_t used = is_hashed(state.shape) ? capacity(state.shape) : state.block.degree;
  return {&edges_[state.block.first], used};
}

uint32_t EdgeStore::degree(const State& state) {
  return state.shape <= kInline ? state.shape : state.block.degree;
}

uint32_t EdgeStore::total(const State& state) {
  if (state.shape == 0) return 0;
  return state.shape == kInline ? state.only.count : state.block.total;
}

const Edge& EdgeStore::recent(const State& state) const { return slots(state)[state.recent]; }

void EdgeStore::add(State& state, int32_t token, StateId target) {
  const Edge edge{token, target, 0};
  if (state.shape == 0) {
    state.only = edge;
    state.shape = kInline;
    state.recent = 0;
    return;
  }
  if (state.shape == kInline || state.block.degree == room(state.shape)) grow(state);
  Edge* slots = &edges_[state.block.first];
  slots[is_hashed(state.shape) ? probe(slots, state.shape, token) : state.block.degree] = edge;
  ++state.block.degree;
}

void EdgeStore::redirect(State& state, int32_t token, StateId target) {
  slot(state, find_slot(state, token)).target = target;
}

StateId EdgeStore::count(State& state, int32_t token, uint32_t weight) {
  const uint32_t index = find_slot(state, token);
  Edge& edge = slot(state, index);
  edge.count += weight;
  if (state.shape != kInline) state.block.total += weight;
  state.recent = index;
  return edge.target;
}

void EdgeStore::copy(const State& from, State& to) {
  to.shape = from.shape;
  to.recent = from.recent;
  if (from.shape <= kInline) {
    to.only = from.only;
    return;
  }
  const State::Block block = from.block;
  const uint32_t first = take_block(from.shape);
  std::copy_n(&edges_[block.first], capacity(to.shape), &edges_[first]);
  to.block = {first, block.degree, block.total};
}

void EdgeStore::grow(State& state) {
  const uint32_t shape = state.shape + 1;
  const uint32_t first = take_block(shape);
  Edge* slots = &edges_[first];
  if (state.shape == kInline) {
    const Edge only = state.only;
    slots[0] = only;
    state.block = {first, 1, only.count};
    state.shape = shape;
    return;
  }
  const Edge* old = &edges_[state.block.first];
  uint32_t recent = state.recent;
  for (uint32_t i = 0; i < capacity(state.shape); ++i) {
    if (old[i].target == kRoot) continue;
    const uint32_t index = is_hashed(shape) ? probe(slots, shape, old[i].token) : i;
    slots[index] = old[i];
    if (i == state.recent) recent = index;
  }
  free_block(state.block.first, state.shape);
  state.block.first = first;
  state.shape = shape;
  state.recent = recent;
}

uint32_t EdgeStore::num_free_slots() const {
  uint32_t slots = 0;
  for (uint32_t shape = kInline + 1; shape < free_.size(); ++shape) {
    for (uint32_t first = free_[shape]; first != kNone; first = edges_[first].target) {
      slots += capacity(shape);
    }
  }
  return slots;
}

uint32_t EdgeStore::take_block(uint32_t shape) {
  uint32_t first = free_[shape];
  if (first == kNone) {
    first = edges_.allocate(capacity(shape));
  } else {
    free_[shape] = edges_[first].target;
  }
  std::fill_n(&edges_[first], capacity(shape), kEmpty);
  return first;
}

void EdgeStore::free_block(uint32_t first, uint32_t shape) {
  edges_[first].target = free_[shape];
  free_[shape] = first;
}

}  // namespace seer
