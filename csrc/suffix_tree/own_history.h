// What a sequence itself did the last time it was here: the place after the latest earlier
// occurrence of its last tokens, held as the sequence grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "suffix_tree/arena.h"

namespace seer {

class OwnHistory {
 public:
  static constexpr uint32_t kContext = 3;  // tokens that must agree
  static constexpr uint32_t kNowhere = UINT32_MAX;

  // `tokens` is the whole text, of which the last one is new since the last call.
  void extend(std::span<const int32_t> tokens);
  // Position in the text of the expected next token, or kNowhere.
  uint32_t expected() const { return expected_; }
  size_t bytes() const { return last_seen_.bytes(); }

 private:
  // Where the context that ends before `end` was last seen, or the empty slot for it.
  uint32_t& slot(std::span<const int32_t> tokens, uint32_t end);
  void rehash(std::span<const int32_t> tokens);

  Arena<uint32_t> last_seen_;  // hash table of the ends of contexts; 0 is empty
  uint32_t num_contexts_ = 0;
  uint32_t expected_ = kNowhere;
};

}  // namespace seer
