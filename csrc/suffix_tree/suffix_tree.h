// The suffix tree of a group: every substring of its texts, with what followed it and how often.
//
// Held as a suffix automaton (a state for each class of substrings that end at the same places; the
// links of the states are the suffix tree of the reversed texts), because it grows at the right end
// in amortised constant time, for many texts in any interleaving, and because the state of a text
// is one link away from its longest match in all others: nothing is searched when a draft is asked.
//
// Counts are kept for contexts of at most `max_depth` tokens. A state is *counted* when its shortest
// string is no longer than that; only counted states are handed out.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "suffix_tree/arena.h"
#include "suffix_tree/edges.h"
#include "suffix_tree/own_history.h"

namespace seer {

// A context that occurred before and was continued. `state` is kRoot where there is none.
struct Match {
  StateId state;
  uint32_t length;  // tokens
};

class SuffixTree {
 public:
  using Sequence = uint32_t;  // index of a sequence, in order of opening

  explicit SuffixTree(uint32_t max_depth);

  // The text that every sequence continues; counts `weight` times. Comes before the first sequence,
  // and once, else std::logic_error.
  void set_prompt(std::span<const int32_t> tokens, uint32_t weight);
  bool contains(int64_t id) const { return by_id_.contains(id); }
  // The sequence that the caller knows as `id`, begun if it is new.
  Sequence open(int64_t id);
  void append(Sequence sequence, std::span<const int32_t> tokens);
  // Follows from now on what the sequence itself did before (`own_history`).
  void follow_own(Sequence sequence);

  // The longest suffix, up to max_depth, of the sequence's text (prompt included) that has a
  // continuation anywhere in the group.
  Match match(Sequence sequence) const;
  // The same for a match followed by one of its state's edges.
  Match step(Match match, const Edge& edge) const;
  // The longest shorter suffix of a match that occurs at more places.
  Match shorten(Match match) const;
  // nullptr unless `follow_own` was asked for.
  const OwnHistory* own_history(Sequence sequence) const;

  const State& state(StateId id) const { return states_[id]; }
  const EdgeStore& edges() const { return edges_; }
  std::span<const int32_t> tokens(Sequence sequence) const;  // without the prompt
  uint32_t num_prompt_tokens() const { return texts_[0].length; }
  uint32_t max_depth() const { return max_depth_; }
  uint32_t num_sequences() const { return static_cast<uint32_t>(texts_.size() - 1); }
  uint32_t num_states() const { return states_.size(); }
  size_t num_tokens() const { return num_tokens_; }  // of all texts
  size_t memory_usage() const;                       // bytes

  // How often `next` followed `context`, a string of at most max_depth tokens. For tests.
  uint32_t count(std::span<const int32_t> context, int32_t next) const;
  // Recounts everything from the texts and looks through every table; slow. Throws std::logic_error.
  void check_integrity() const;

 private:
  // A text and where it stands in the tree.
  struct Text {
    Arena<int32_t> tokens;  // without the prompt
    uint32_t length = 0;    // with the prompt
    StateId whole = kRoot;  // the state whose longest string is the whole text
    StateId tail = kRoot;   // held the last max_depth tokens when it was set; see `holding`
    std::optional<OwnHistory> own;
  };

  void extend(Text& text, int32_t token, uint32_t weight);
  StateId grow(StateId whole, int32_t token);
  StateId longest_of(StateId parent, int32_t token, StateId child);
  StateId holding(StateId state, uint32_t length) const;
  Match continued(Match match) const;
  bool is_counted(const State& state) const;

  using Recount = std::unordered_map<uint64_t, uint32_t>;  // state and token -> count
  void check_state(StateId id, const Recount& recount) const;
  void check_slots() const;
  void check_text(const Text& text, uint32_t weight, Recount& recount) const;

  uint32_t max_depth_;
  uint32_t prompt_weight_ = 1;
  size_t num_tokens_ = 0;
  Arena<State> states_;
  EdgeStore edges_;
  std::vector<Text> texts_;  // the prompt, then the sequences
  std::unordered_map<int64_t, Sequence> by_id_;
};

}  // namespace seer
