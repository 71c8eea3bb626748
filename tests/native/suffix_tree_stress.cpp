// Random groups against a naive count, for the sanitizers: `scripts/check_native.sh`.
//
// Small alphabets make repeats and splits, large ones hash tables; loops make long chains of links.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "suffix_tree/drafter.h"
#include "suffix_tree/suffix_tree.h"

namespace {

using Tokens = std::vector<int32_t>;

struct Plan {
  int32_t alphabet;
  uint32_t max_depth;
  uint32_t num_members;
  uint32_t num_appends;
  double copied;  // share of pieces that are copied from a member
};

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "suffix tree stress: %s\n", what);
  std::exit(1);
}

// How often each token followed each context of up to `max_depth` tokens.
class NaiveCounts {
 public:
  explicit NaiveCounts(uint32_t max_depth) : max_depth_(max_depth) {}

  void add(std::span<const int32_t> text_before, int32_t next, uint32_t weight) {
    const size_t longest = std::min<size_t>(max_depth_, text_before.size());
    for (size_t length = 0; length <= longest; ++length) {
      const auto context = text_before.last(length);
      counts_[Tokens(context.begin(), context.end())][next] += weight;
    }
  }

  void compare(const seer::SuffixTree& tree) const {
    for (const auto& [context, followers] : counts_) {
      for (const auto& [next, count] : followers) {
        require(tree.count(context, next) == count, "a count differs");
      }
    }
  }

  // Length of the longest suffix that was followed by anything.
  size_t match(const Tokens& text) const {
    size_t length = std::min<size_t>(max_depth_, text.size());
    while (length > 0 && !counts_.contains(Tokens(text.end() - length, text.end()))) --length;
    return length;
  }

 private:
  uint32_t max_depth_;
  std::map<Tokens, std::map<int32_t, uint32_t>> counts_;
};

class Group {
 public:
  Group(const Plan& plan, uint32_t seed)
      : plan_(plan), random_(seed), naive_(plan.max_depth), tree_(plan.max_depth) {
    const Tokens prompt = fresh(random_() % 12);
    const uint32_t weight = 1 + random_() % 3;
    tree_.set_prompt(prompt, weight);
    Tokens text;
    for (const int32_t token : prompt) {
      naive_.add(text, token, weight);
      text.push_back(token);
    }
    texts_.assign(plan.num_members, text);
    for (uint32_t member = 0; member < plan.num_members; ++member) {
      require(tree_.open(1000 + member) == member, "members are numbered in order");
    }
  }

  void run() {
    for (uint32_t i = 0; i < plan_.num_appends; ++i) {
      const uint32_t member = random_() % plan_.num_members;
      if (random_() % 8 == 0) tree_.follow_own(member);
      append(member, piece());
      if (random_() % 4 == 0) draft();
      if (random_() % 64 == 0) tree_.check_integrity();
    }
    tree_.check_integrity();
    naive_.compare(tree_);
  }

 private:
  Tokens fresh(size_t length) {
    Tokens tokens(length);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random_() % plan_.alphabet);
    return tokens;
  }

  Tokens piece() {
    const size_t length = random_() % 7;
    const Tokens& source = texts_[random_() % texts_.size()];
    const bool copies = std::uniform_real_distribution<>(0, 1)(random_) < plan_.copied;
    if (!copies || source.size() <= length) return fresh(length);
    const auto first = source.begin() + static_cast<long>(random_() % (source.size() - length));
    return Tokens(first, first + static_cast<long>(length));
  }

  void append(uint32_t member, const Tokens& tokens) {
    tree_.append(member, tokens);
    for (const int32_t token : tokens) {
      naive_.add(texts_[member], token, 1);
      texts_[member].push_back(token);
    }
  }

  void draft() {
    seer::Drafts drafts;
    seer::Drafter drafter({1 + static_cast<uint32_t>(random_() % 4), 0.01f}, {0.5f, 0.3f});
    for (uint32_t member = 0; member < plan_.num_members; ++member) {
      drafter.draft(tree_, member, random_() % 20, drafts);
      require(static_cast<size_t>(drafts.match_lengths[member]) == naive_.match(texts_[member]),
              "a match is not the longest");
    }
    for (size_t i = 0; i < drafts.token_ids.size(); ++i) {
      require(drafts.probabilities[i] > 0 && drafts.probabilities[i] <= 1, "a probability");
    }
  }

  Plan plan_;
  std::mt19937 random_;
  NaiveCounts naive_;
  seer::SuffixTree tree_;
  std::vector<Tokens> texts_;
};

}  // namespace

int main() {
  const Plan plans[] = {
      {1, 5, 3, 60, 0.0},      // one endless loop
      {2, 4, 4, 150, 0.2},     // everything repeats
      {3, 12, 5, 150, 0.5},    // long repeats
      {3, 64, 2, 100, 0.9},    // mostly copies
      {400, 6, 4, 400, 0.3},   // contexts with many followers
      {2000, 3, 3, 900, 0.0},  // hash tables grow
  };
  for (const Plan& plan : plans) {
    for (uint32_t seed = 0; seed < 8; ++seed) Group(plan, seed).run();
  }
  std::puts("suffix tree stress: passed");
}
