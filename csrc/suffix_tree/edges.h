// States and their outgoing edges, with counts.
//
// Most states have one edge, which lies in the state itself. The others have a block of edges: a
// plain list up to 16, an open-addressed hash table above. A block that is outgrown goes to a free
// list of its size, for the next state that grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "suffix_tree/arena.h"

namespace seer {

using StateId = uint32_t;

inline constexpr StateId kRoot = 0;  // the empty string; no edge leads to it
inline constexpr StateId kNone = UINT32_MAX;

struct Edge {
  int32_t token;
  StateId target;  // kRoot marks an empty slot of a hash table
  uint32_t count;  // how often `token` followed the state's strings
};

// All strings that end at the same places of the group's text (a right-equivalence class).
struct State {
  uint32_t length;        // of the longest string; the shortest is one longer than the link's longest
  StateId link;           // class of the longest suffix that ends at more places
  uint32_t shape : 5;     // 0: no edge; 1: `only`; s > 1: a block of 2^(s - 1) slots
  uint32_t recent : 27;   // slot of the edge that was taken last
  struct Block {
    uint32_t first;   // index of the block in the store
    uint32_t degree;  // edges in use
    uint32_t total;   // sum of their counts
  };
  union {
    Edge only;
    Block block;
  };
};
static_assert(sizeof(State) == 24 && sizeof(Edge) == 12);

class EdgeStore {
 public:
  // nullptr where no edge has this token. Valid until a state or an edge is added.
  const Edge* find(const State& state, int32_t token) const;
  void add(State& state, int32_t token, StateId target);
  // Points an existing edge elsewhere.
  void redirect(State& state, int32_t token, StateId target);
  // Raises the count of an existing edge, makes it the recent one, and returns its target.
  StateId count(State& state, int32_t token, uint32_t weight);
  // Gives `to`, which has no edge, the edges of `from`.
  void copy(const State& from, State& to);

  // The slots of a state: skip those whose target is kRoot.
  std::span<const Edge> slots(const State& state) const;
  static uint32_t degree(const State& state);
  static uint32_t total(const State& state);
  // The edge taken last; the state has one.
  const Edge& recent(const State& state) const;

  size_t bytes() const { return edges_.bytes(); }
  // Slots in all blocks, and those of them that lie in free blocks. For integrity checks.
  uint32_t num_slots() const { return edges_.size(); }
  uint32_t num_free_slots() const;

 private:
  uint32_t find_slot(const State& state, int32_t token) const;
  Edge& slot(State& state, uint32_t index);
  uint32_t take_block(uint32_t shape);
  void free_block(uint32_t first, uint32_t shape);
  void grow(State& state);

  Arena<Edge> edges_;
  std::array<uint32_t, 32> free_ = [] {
    std::array<uint32_t, 32> none{};
    none.fill(kNone);
    return none;
  }();  // by shape: first block of a list linked through `Edge::target`
};

}  // namespace seer
