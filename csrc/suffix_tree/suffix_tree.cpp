#include "suffix_tree/suffix_tree.h"

#include <algorithm>
#include <stdexcept>

namespace seer {

namespace {

constexpr State new_state(uint32_t length, StateId link) {
  return State{.length = length, .link = link, .shape = 0, .recent = 0, .only = {}};
}

}  // namespace

SuffixTree::SuffixTree(uint32_t max_depth) : max_depth_(max_depth), texts_(1) {
  states_.push(new_state(0, kNone));
}

void SuffixTree::set_prompt(std::span<const int32_t> tokens, uint32_t weight) {
  if (texts_.size() > 1 || texts_[0].length > 0) {
    throw std::logic_error("the prompt comes before the sequences, and once");
  }
  prompt_weight_ = weight;
  for (const int32_t token : tokens) extend(texts_[0], token, weight);
}

SuffixTree::Sequence SuffixTree::open(int64_t id) {
  const auto [place, is_new] = by_id_.try_emplace(id, num_sequences());
  if (is_new) {
    Text& text = texts_.emplace_back();
    text.length = texts_[0].length;
    text.whole = texts_[0].whole;
    text.tail = texts_[0].tail;
  }
  return place->second;
}

void SuffixTree::append(Sequence sequence, std::span<const int32_t> tokens) {
  Text& text = texts_[sequence + 1];
  for (const int32_t token : tokens) {
    extend(text, token, 1);
    if (text.own) text.own->extend(this->tokens(sequence));
  }
}

void SuffixTree::follow_own(Sequence sequence) {
  Text& text = texts_[sequence + 1];
  if (text.own) return;
  text.own.emplace();
  for (uint32_t end = 1; end <= text.tokens.size(); ++end) {
    text.own->extend({text.tokens.data(), end});
  }
}

void SuffixTree::extend(Text& text, int32_t token, uint32_t weight) {
  text.whole = grow(text.whole, token);
  StateId context = holding(text.tail, std::min(text.length, max_depth_));
  text.tail = edges_.count(states_[context], token, weight);
  while ((context = states_[context].link) != kNone) edges_.count(states_[context], token, weight);
  text.tokens.push(token);
  ++text.length;
  ++num_tokens_;
}

// One step of the automaton's online construction: edges from the suffixes of the text that were
// never followed by `token`, and a link from the new text to the longest suffix that was.
StateId SuffixTree::grow(StateId whole, int32_t token) {
  if (const Edge* edge = edges_.find(states_[whole], token)) {
    return longest_of(whole, token, edge->target);
  }
  const StateId grown = states_.push(new_state(states_[whole].length + 1, kRoot));
  const Edge* edge = nullptr;
  StateId suffix = whole;
  while (suffix != kNone && (edge = edges_.find(states_[suffix], token)) == nullptr) {
    edges_.add(states_[suffix], token, grown);
    suffix = states_[suffix].link;
  }
  if (suffix != kNone) {
    const StateId link = longest_of(suffix, token, edge->target);
    states_[grown].link = link;
  }
  return grown;
}

// The state whose longest string is that of `parent` plus `token`: `child` itself, or the part of
// it split off for the strings that now end at one place more than the longer ones.
StateId SuffixTree::longest_of(StateId parent, int32_t token, StateId child) {
  const uint32_t length = states_[parent].length + 1;
  if (states_[child].length == length) return child;
  const StateId split = states_.push(new_state(length, states_[child].link));
  edges_.copy(states_[child], states_[split]);
  states_[child].link = split;
  for (StateId suffix = parent; suffix != kNone; suffix = states_[suffix].link) {
    if (edges_.find(states_[suffix], token)->target != child) break;
    edges_.redirect(states_[suffix], token, split);
  }
  return split;
}

// The state that now holds the last `length` tokens of a string that `state` held once: splits
// and the limit of depth leave it further along the links.
StateId SuffixTree::holding(StateId state, uint32_t length) const {
  while (state != kRoot && states_[states_[state].link].length >= length) {
    state = states_[state].link;
  }
  return state;
}

Match SuffixTree::match(Sequence sequence) const {
  const Text& text = texts_[sequence + 1];
  const uint32_t length = std::min(text.length, max_depth_);
  return continued({holding(text.tail, length), length});
}

Match SuffixTree::step(Match match, const Edge& edge) const {
  const uint32_t length = std::min(match.length + 1, max_depth_);
  return continued({holding(edge.target, length), length});
}

Match SuffixTree::shorten(Match match) const {
  const StateId link = states_[match.state].link;
  return {link, states_[link].length};
}

Match SuffixTree::continued(Match match) const {
  while (match.state != kRoot && EdgeStore::total(states_[match.state]) == 0) match = shorten(match);
  return match;
}

const OwnHistory* SuffixTree::own_history(Sequence sequence) const {
  const auto& own = texts_[sequence + 1].own;
  return own ? &*own : nullptr;
}

std::span<const int32_t> SuffixTree::tokens(Sequence sequence) const {
  const Text& text = texts_[sequence + 1];
  return {text.tokens.data(), text.tokens.size()};
}

size_t SuffixTree::memory_usage() const {
  constexpr size_t kNodeBytes = sizeof(std::pair<int64_t, Sequence>) + 2 * sizeof(void*);
  size_t bytes = sizeof *this + states_.bytes() + edges_.bytes();
  bytes += texts_.capacity() * sizeof(Text) + by_id_.size() * kNodeBytes;
  for (const Text& text : texts_) bytes += text.tokens.bytes() + (text.own ? text.own->bytes() : 0);
  return bytes;
}

uint32_t SuffixTree::count(std::span<const int32_t> context, int32_t next) const {
  StateId state = kRoot;
  for (const int32_t token : context) {
    const Edge* edge = edges_.find(states_[state], token);
    if (edge == nullptr) return 0;
    state = edge->target;
  }
  const Edge* edge = edges_.find(states_[state], next);
  return edge == nullptr ? 0 : edge->count;
}

}  // namespace seer
