// Drawing one token a row by the inverse CDF of the processed distribution.
//
// Processing follows vLLM's order: temperature, then min-p, top-k and top-p over what is left. All
// three keep the tokens above a logit, ties included, so the processed distribution is "every
// token whose logit is at least `cut`". The CDF runs in token-id order and in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops.h"
#include "simd.h"

namespace seer {
namespace {

constexpr int kSumChunk = 512;

struct Drawn {
  int32_t token;
  float logprob;
};

// Scratch of one thread.
struct SampleScratch {
  std::vector<float> logits;      // padded to whole vectors; the padding never wins
  float top;                      // highest logit
  std::vector<float> weights;     // e^((logit - top) / temperature)
  std::vector<double> chunk_sums;
  std::vector<float> candidates;
};

// One row of logits as floats, and the highest of them.
template <typename T>
void load_logits(const T* logits, int vocab, SampleScratch* s) {
  s->logits.resize((vocab + kLanes - 1) / kLanes * kLanes, -1e30f);
  float* out = s->logits.data();
  Vec top = splat(-std::numeric_limits<float>::infinity());
  int i = 0;
  for (; i + kLanes <= vocab; i += kLanes) {
    const Vec v = load_vec(logits + i);
    top = max(top, v);
    store_vec(out + i, v);
  }
  s->top = max(top);
  for (; i < vocab; ++i) {
    out[i] = to_float(logits[i]);
    s->top = std::max(s->top, out[i]);
  }
}

// weights[i] = e^((logits[i] - top) * inverse_temperature), zero below `cut`; returns their sum.
inline double weigh(const SampleScratch& in, float top, float inverse_temperature, float cut,
                    std::vector<float>* weights, std::vector<double>* chunk_sums) {
  const int vocab = static_cast<int>(in.logits.size());
  const float* logits = in.logits.data();
  float* out = weights->data();
  double total = 0.0;
  chunk_sums->clear();
  for (int start = 0; start < vocab; start += kSumChunk) {
    const int end = std::min(vocab, start + kSumChunk);
    Vec acc = {};
    for (int i = start; i < end; i += kLanes) {
      const Vec logit = load_vec(logits + i);
      const Vec e = exp_vec((logit - top) * inverse_temperature);
      const Vec kept = logit >= cut ? e : Vec{};
      store_vec(out + i, kept);
      acc = acc + kept;
    }
    double chunk = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) chunk += acc[lane];
    chunk_sums->push_back(chunk);
    total += chunk;
  }
  return total;
}

// The logit of the last token kept by nucleus sampling among weights of kept tokens. Candidates
// are gathered by growing depth, so that a peaked distribution sorts a handful of tokens.
inline float top_p_cut(const SampleScratch& s, float top, float inverse_temperature, float cut,
                       double total, float top_p, std::vector<float>* candidates) {
  const double wanted = total * top_p;
  for (const float depth : {8.0f, 16.0f, std::numeric_limits<float>::infinity()}) {
    candidates->clear();
    const float floor = std::max(cut, top - depth / inverse_temperature);
    for (size_t i = 0; i < s.logits.size(); ++i) {
      if (s.weights[i] > 0.0f && s.logits[i] >= floor) candidates->push_back(s.logits[i]);
    }
    std::sort(candidates->begin(), candidates->end(), std::greater<float>());
    double sum = 0.0;
    for (const float logit : *candidates) {
      sum += std::exp(static_cast<double>((logit - top) * inverse_temperature));
      if (sum >= wanted) return logit;
    }
  }
  return cut;
}

inline float top_k_cut(const SampleScratch& s, int k, std::vector<float>* candidates) {
  if (k >= static_cast<int>(s.logits.size())) return -std::numeric_limits<float>::infinity();
  *candidates = s.logits;
  std::nth_element(candidates->begin(), candidates->begin() + (k - 1), candidates->end(),
                   std::greater<float>());
  return (*candidates)[k - 1];
}

inline int32_t inverse_cdf(const SampleScratch& s, double target) {
  size_t chunk = 0;
  double before = 0.0;
  while (chunk + 1 < s.chunk_sums.size() && before + s.chunk_sums[chunk] <= target) {
    before += s.chunk_sums[chunk++];
  }
  const size_t end = std::min(s.logits.size(), (chunk + 1) * kSumChunk);
  int32_t last = -1;
  for (size_t i = chunk * kSumChunk; i < end; ++i) {
    if (s.weights[i] == 0.0f) continue;
    last = static_cast<int32_t>(i);
    before += s.weights[i];
    if (before > target) return last;
  }
  if (last >= 0) return last;
  for (size_t i = chunk * kSumChunk; i-- > 0;) {  // rounding put the target past the last weight
    if (s.weights[i] > 0.0f) return static_cast<int32_t>(i);
  }
  return 0;
}

inline Drawn draw(const SampleRow& how, bool raw, SampleScratch& s) {
  const int vocab = static_cast<int>(s.logits.size());
  const float top = s.top;
  const float none = -std::numeric_limits<float>::infinity();
  s.weights.resize(vocab);
  const auto logprob = [&](int32_t token, float inverse_temperature, double total) {
    return static_cast<float>((static_cast<double>(s.logits[token]) - top) * inverse_temperature -
                              std::log(total));
  };
  if (how.temperature == 0.0f) {
    const double total = weigh(s, top, 1.0f, none, &s.weights, &s.chunk_sums);
    const auto first = std::find(s.logits.begin(), s.logits.end(), top);
    if (first == s.logits.end()) return {0, std::nanf("")};  // a logit is NaN
    const auto token = static_cast<int32_t>(first - s.logits.begin());
    return {token, logprob(token, 1.0f, total)};
  }
  const float inverse = 1.0f / how.temperature;
  float cut = none;
  if (how.min_p > 0.0f) cut = top + std::log(how.min_p) * how.temperature;
  if (how.top_k > 0) cut = std::max(cut, top_k_cut(s, how.top_k, &s.candidates));
  double total = weigh(s, top, inverse, cut, &s.weights, &s.chunk_sums);
  if (how.top_p < 1.0f) {
    cut = top_p_cut(s, top, inverse, cut, total, how.top_p, &s.candidates);
    total = weigh(s, top, inverse, cut, &s.weights, &s.chunk_sums);
  }
  const int32_t token = inverse_cdf(s, how.uniform * total);
  if (!raw) return {token, logprob(token, inverse, total)};
  return {token, logprob(token, 1.0f, weigh(s, top, 1.0f, none, &s.weights, &s.chunk_sums))};
}

}  // namespace
}  // namespace seer
