// Drafts from the tree: of all continuations of a sequence, the ones most likely to be accepted.
//
// A node's estimate is the product of the probabilities along its path (`NextTokens`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "suffix_tree/next_tokens.h"
#include "suffix_tree/suffix_tree.h"

namespace seer {

struct DraftLimits {
  uint32_t top_k;         // most children of a node; 1 drafts a chain
  float min_probability;  // nodes below are left out
};

// Drafts of several sequences, one after the other.
struct Drafts {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> parents;  // index in the sequence's own draft; -1: follows the text
  std::vector<float> probabilities;
  std::vector<int32_t> offsets{0};  // first node of each sequence, and the end
  std::vector<int32_t> match_lengths;
};

class Drafter {
 public:
  Drafter(const DraftLimits& limits, const EvidenceWeights& weights)
      : limits_(limits), weights_(weights) {}

  // Adds the best `max_nodes` nodes, best first; so a parent comes before its children.
  void draft(const SuffixTree& tree, SuffixTree::Sequence sequence, uint32_t max_nodes,
             Drafts& drafts);

 private:
  struct Node {
    float probability;  // of the whole path
    int32_t token;
    int32_t parent;
    uint32_t depth;
    Match match;
    uint32_t own;  // place in the sequence of the token that it would go on with
  };

  static bool is_worse(const Node& a, const Node& b);
  void expand(const SuffixTree& tree, std::span<const int32_t> text, const Node& node,
              int32_t index);
  void keep_best_candidates();

  DraftLimits limits_;
  EvidenceWeights weights_;
  std::vector<Node> open_;  // heap of the nodes that may come next
  std::vector<Candidate> candidates_;
};

}  // namespace seer
