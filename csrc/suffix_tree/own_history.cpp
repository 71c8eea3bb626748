#include "suffix_tree/own_history.h"

#include <algorithm>

namespace seer {

namespace {

constexpr uint32_t kSmallest = 64;

uint32_t hash_context(const int32_t* context) {
  uint64_t hash = 0;
  for (uint32_t i = 0; i < OwnHistory::kContext; ++i) {
    hash = (hash ^ static_cast<uint32_t>(context[i])) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return static_cast<uint32_t>(hash >> 16);
}

bool same_context(std::span<const int32_t> tokens, uint32_t end, uint32_t other) {
  const auto before = [&](uint32_t place) {
    return tokens.subspan(place - OwnHistory::kContext, OwnHistory::kContext);
  };
  return std::ranges::equal(before(end), before(other));
}

}  // namespace

void OwnHistory::extend(std::span<const int32_t> tokens) {
  const auto end = static_cast<uint32_t>(tokens.size());
  if (end < kContext) return;
  if (4 * (num_contexts_ + 1) > 3 * last_seen_.size()) rehash(tokens);
  uint32_t& seen = slot(tokens, end);
  const bool agrees = expected_ != kNowhere && tokens[expected_] == tokens[end - 1];
  if (agrees) {
    ++expected_;
  } else {
    expected_ = seen == 0 ? kNowhere : seen;
  }
  num_contexts_ += seen == 0;
  seen = end;
}

uint32_t& OwnHistory::slot(std::span<const int32_t> tokens, uint32_t end) {
  const uint32_t mask = last_seen_.size() - 1;
  uint32_t index = hash_context(tokens.data() + end - kContext) & mask;
  while (last_seen_[index] != 0 && !same_context(tokens, end, last_seen_[index])) {
    index = (index + 1) & mask;
  }
  return last_seen_[index];
}

void OwnHistory::rehash(std::span<const int32_t> tokens) {
  Arena<uint32_t> old = std::move(last_seen_);
  last_seen_ = Arena<uint32_t>();
  const uint32_t size = std::max(kSmallest, 2 * old.size());
  std::fill_n(&last_seen_[last_seen_.allocate(size)], size, 0u);
  for (uint32_t i = 0; i < old.size(); ++i) {
    if (old[i] != 0) slot(tokens, old[i]) = old[i];
  }
}

}  // namespace seer
