// What may follow a context, with an estimated probability of each token.
//
// Mixes the longest match with the next shorter one:
//
//   p(t)       = (count(t) + bonus(t) + k p_short(t)) / (total + bonus + k)
//   p_short(t) = (count_short(t) - count(t) + recency(t)) / (total_short - total + recency + k_short)
//
// where k ("so many doubtful occurrences") falls with the length of the match, and the bonus goes to
// the token that followed last (recency) and to the one that the sequence itself went on with when
// it was here before. What is missing from a sum of 1 is the probability of a token never seen here.
#pragma once

#include <cstdint>
#include <vector>

#include "suffix_tree/suffix_tree.h"

namespace seer {

inline constexpr int32_t kNoToken = -1;

struct EvidenceWeights {
  float recency;  // occurrences that "followed last" is worth
  float own;      // occurrences that "followed in the sequence itself" is worth
};

struct Candidate {
  float probability;
  int32_t token;
  Match next;  // of the context with the token
};

class NextTokens {
 public:
  // `own` is the token that the sequence itself went on with, or kNoToken.
  NextTokens(const SuffixTree& tree, Match match, int32_t own, const EvidenceWeights& weights);

  // Adds every token with at least this probability.
  void collect(float least, std::vector<Candidate>& candidates) const;

 private:
  // A match and its evidence; a match of nothing has none.
  struct Level {
    Match match{kRoot, 0};
    const State* state = nullptr;
    float total = 0;
    float recency = 0;
    int32_t recent = kNoToken;
  };

  Level level(Match match, float recency_weight) const;
  const Edge* find(const Level& level, int32_t token) const;
  // Calls `visit` with each edge of the level counted at least so often.
  template <typename Visit>
  void visit(const Level& level, float least_count, Visit visit) const;
  float probability(const Edge* in_longer, const Edge* in_shorter, int32_t token) const;
  void collect_own(float least, std::vector<Candidate>& candidates) const;

  const SuffixTree& tree_;
  Level longer_;
  Level shorter_;
  int32_t own_;
  float own_bonus_;
  float doubt_;
  float mass_;        // denominator of p
  float short_mass_;  // denominator of p_short
};

}  // namespace seer
