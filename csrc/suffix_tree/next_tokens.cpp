#include "suffix_tree/next_tokens.h"

namespace seer {

namespace {

// Occurrences of doubt by length of the match. Fitted to replays of real groups (docs/drafting.md).
float doubt(uint32_t match_length) {
  if (match_length >= 16) return 0.3f;
  if (match_length >= 8) return 0.6f;
  if (match_length >= 4) return 2.1f;
  if (match_length >= 2) return 3.3f;
  return 4.0f;
}

float count_of(const Edge* edge) { return edge == nullptr ? 0.0f : static_cast<float>(edge->count); }

}  // namespace

NextTokens::NextTokens(const SuffixTree& tree, Match match, int32_t own,
                       const EvidenceWeights& weights)
    : tree_(tree),
      longer_(level(match, weights.recency)),
      shorter_(longer_.state ? level(tree.shorten(match), weights.recency) : Level{}),
      own_(own),
      own_bonus_(own == kNoToken ? 0.0f : weights.own),
      doubt_(doubt(longer_.match.length)),
      mass_(longer_.total + longer_.recency + own_bonus_ + doubt_),
      short_mass_(shorter_.total - longer_.total + shorter_.recency + doubt(shorter_.match.length)) {}

NextTokens::Level NextTokens::level(Match match, float recency_weight) const {
  if (match.state == kRoot) return {};
  const State& state = tree_.state(match.state);
  const auto total = static_cast<float>(EdgeStore::total(state));
  return {match, &state, total, recency_weight, tree_.edges().recent(state).token};
}

const Edge* NextTokens::find(const Level& level, int32_t token) const {
  return level.state == nullptr ? nullptr : tree_.edges().find(*level.state, token);
}

template <typename Visit>
void NextTokens::visit(const Level& level, float least_count, Visit visit) const {
  if (level.state == nullptr) return;
  // Each edge counts at least 1, which bounds the largest: a context that was followed by many
  // different tokens once each is not searched.
  const uint32_t others = EdgeStore::degree(*level.state) - 1;
  if (level.total - static_cast<float>(others) < least_count) return;
  for (const Edge& edge : tree_.edges().slots(*level.state)) {
    if (edge.target != kRoot && count_of(&edge) >= least_count) visit(edge);
  }
}

void NextTokens::collect(float least, std::vector<Candidate>& candidates) const {
  const float needed = least * mass_;  // numerator of p
  const auto add = [&](const Edge& edge, const Level& level, float p) {
    if (p >= least) candidates.push_back({p, edge.token, tree_.step(level.match, edge)});
  };
  // In both passes the bounds leave out only tokens that cannot reach `needed`.
  visit(longer_, needed - longer_.recency - own_bonus_ - doubt_, [&](const Edge& edge) {
    add(edge, longer_, probability(&edge, find(shorter_, edge.token), edge.token));
  });
  const float least_short = (needed - own_bonus_) / doubt_ * short_mass_ - shorter_.recency;
  visit(shorter_, least_short, [&](const Edge& edge) {
    if (find(longer_, edge.token) != nullptr) return;
    add(edge, shorter_, probability(nullptr, &edge, edge.token));
  });
  if (own_ != kNoToken) collect_own(least, candidates);
}

// The sequence's own token, where no level knows it.
void NextTokens::collect_own(float least, std::vector<Candidate>& candidates) const {
  if (find(longer_, own_) != nullptr || find(shorter_, own_) != nullptr) return;
  const float p = probability(nullptr, nullptr, own_);
  const Match anything{kRoot, 0};
  const Edge* edge = tree_.edges().find(tree_.state(kRoot), own_);
  if (p >= least) candidates.push_back({p, own_, tree_.step(anything, *edge)});
}

float NextTokens::probability(const Edge* in_longer, const Edge* in_shorter, int32_t token) const {
  const float count = count_of(in_longer);
  const float recency = token == longer_.recent ? longer_.recency : 0.0f;
  const float own = token == own_ ? own_bonus_ : 0.0f;
  if (in_shorter == nullptr) return (count + recency + own) / mass_;
  const float short_recency = token == shorter_.recent ? shorter_.recency : 0.0f;
  const float p_short = (count_of(in_shorter) - count + short_recency) / short_mass_;
  return (count + recency + own + doubt_ * p_short) / mass_;
}

}  // namespace seer
