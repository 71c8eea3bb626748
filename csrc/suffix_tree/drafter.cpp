#include "suffix_tree/drafter.h"

#include <algorithm>

namespace seer {

void Drafter::draft(const SuffixTree& tree, SuffixTree::Sequence sequence, uint32_t max_nodes,
                    Drafts& drafts) {
  const std::span<const int32_t> text = tree.tokens(sequence);
  const OwnHistory* history = tree.own_history(sequence);
  const uint32_t own = history == nullptr ? OwnHistory::kNowhere : history->expected();
  const Match match = tree.match(sequence);
  drafts.match_lengths.push_back(static_cast<int32_t>(match.length));
  open_.clear();
  if (max_nodes > 0) expand(tree, text, {1.0f, kNoToken, -1, 0, match, own}, -1);
  for (uint32_t index = 0; index < max_nodes && !open_.empty(); ++index) {
    std::pop_heap(open_.begin(), open_.end(), is_worse);
    const Node node = open_.back();
    open_.pop_back();
    drafts.token_ids.push_back(node.token);
    drafts.parents.push_back(node.parent);
    drafts.probabilities.push_back(node.probability);
    if (index + 1 < max_nodes) expand(tree, text, node, static_cast<int32_t>(index));
  }
  drafts.offsets.push_back(static_cast<int32_t>(drafts.token_ids.size()));
}

// Ties go to the shallower node, then to the older parent, then to the smaller token.
bool Drafter::is_worse(const Node& a, const Node& b) {
  if (a.probability != b.probability) return a.probability < b.probability;
  if (a.depth != b.depth) return a.depth > b.depth;
  return a.parent != b.parent ? a.parent > b.parent : a.token > b.token;
}

void Drafter::expand(const SuffixTree& tree, std::span<const int32_t> text, const Node& node,
                     int32_t index) {
  const int32_t own = node.own < text.size() ? text[node.own] : kNoToken;
  candidates_.clear();
  NextTokens(tree, node.match, own, weights_)
      .collect(limits_.min_probability / node.probability, candidates_);
  keep_best_candidates();
  for (const Candidate& candidate : candidates_) {
    const uint32_t next_own = candidate.token == own ? node.own + 1 : OwnHistory::kNowhere;
    open_.push_back({candidate.probability * node.probability, candidate.token, index,
                     node.depth + 1, candidate.next, next_own});
    std::push_heap(open_.begin(), open_.end(), is_worse);
  }
}

void Drafter::keep_best_candidates() {
  if (candidates_.size() <= limits_.top_k) return;
  const auto is_better = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
  };
  const auto end = candidates_.begin() + limits_.top_k;
  std::partial_sort(candidates_.begin(), end, candidates_.end(), is_better);
  candidates_.resize(limits_.top_k);
}

}  // namespace seer
