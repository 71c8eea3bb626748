// The tree held against its own texts, for tests and for whoever suspects it.
#include <stdexcept>
#include <string>

#include "suffix_tree/suffix_tree.h"

namespace seer {

namespace {

void expect(bool holds, const char* what, uint32_t where) {
  if (!holds) throw std::logic_error("suffix tree: " + std::string(what) + " at " + std::to_string(where));
}

uint64_t key(StateId state, int32_t token) {
  return uint64_t{state} << 32 | static_cast<uint32_t>(token);
}

uint32_t block_slots(const State& state) { return state.shape > 1 ? 1u << (state.shape - 1) : 0; }

}  // namespace

void SuffixTree::check_integrity() const {
  Recount recount;
  size_t num_tokens = 0;
  for (const Text& text : texts_) {
    check_text(text, &text == &texts_[0] ? prompt_weight_ : 1, recount);
    num_tokens += text.tokens.size();
  }
  expect(num_tokens == num_tokens_, "number of tokens", 0);
  for (StateId id = 0; id < states_.size(); ++id) check_state(id, recount);
  check_slots();
}

bool SuffixTree::is_counted(const State& state) const {
  return state.link == kNone || states_[state.link].length < max_depth_;
}

// Walks the text through the finished tree, counting anew.
void SuffixTree::check_text(const Text& text, uint32_t weight, Recount& recount) const {
  const bool is_prompt = &text == &texts_[0];
  StateId whole = is_prompt ? kRoot : texts_[0].whole;
  StateId tail = is_prompt ? kRoot : texts_[0].tail;
  uint32_t length = is_prompt ? 0 : texts_[0].length;
  for (uint32_t i = 0; i < text.tokens.size(); ++i, ++length) {
    const int32_t token = text.tokens[i];
    tail = holding(tail, std::min(length, max_depth_));
    for (StateId s = tail; s != kNone; s = states_[s].link) recount[key(s, token)] += weight;
    const Edge* of_whole = edges_.find(states_[whole], token);
    const Edge* of_tail = edges_.find(states_[tail], token);
    expect(of_whole != nullptr && of_tail != nullptr, "text without a path", i);
    whole = of_whole->target;
    tail = of_tail->target;
    expect(states_[whole].length == length + 1, "text is not the longest of its class", i);
  }
  expect(whole == text.whole && length == text.length, "end of a text", whole);
}

void SuffixTree::check_state(StateId id, const Recount& recount) const {
  const State& state = states_[id];
  expect((state.link == kNone) == (id == kRoot), "link", id);
  expect(id == kRoot || states_[state.link].length < state.length, "length of link", id);
  uint32_t degree = 0;
  uint32_t total = 0;
  for (const Edge& edge : edges_.slots(state)) {
    if (edge.target == kRoot) continue;
    ++degree;
    total += edge.count;
    expect(edges_.find(state, edge.token) == &edge, "edge out of reach", id);
    expect(edge.target < states_.size(), "edge to nowhere", id);
    expect(states_[edge.target].length > state.length, "edge to a shorter string", id);
    if (!is_counted(state)) continue;
    const auto counted = recount.find(key(id, edge.token));
    expect(edge.count == (counted == recount.end() ? 0 : counted->second), "count", id);
  }
  expect(degree == EdgeStore::degree(state), "degree", id);
  expect(total == EdgeStore::total(state), "total", id);
  expect(degree == 0 || edges_.recent(state).target != kRoot, "recent edge", id);
}

// Each slot is in one state's block or in one free block.
void SuffixTree::check_slots() const {
  std::vector<bool> taken(edges_.num_slots(), false);
  uint32_t num_taken = 0;
  for (StateId id = 0; id < states_.size(); ++id) {
    for (uint32_t i = 0; i < block_slots(states_[id]); ++i, ++num_taken) {
      const uint32_t slot = states_[id].block.first + i;
      expect(slot < taken.size() && !taken[slot], "slot in two blocks", id);
      taken[slot] = true;
    }
  }
  expect(num_taken + edges_.num_free_slots() == edges_.num_slots(), "lost slots", num_taken);
}

}  // namespace seer
