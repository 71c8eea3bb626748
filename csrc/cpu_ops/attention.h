// Paged attention over blocks of 32 tokens. Included by ops.cpp, once per instruction set.
//
// A work item is (sequence, kv head, up to 12 query rows). Rows are (query, head of the kv group)
// pairs, so grouped heads and several query tokens share one pass over keys and values. Each row's
// sums run in the same order whatever else is in the batch: a row's result does not depend on it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "ops.h"
#include "simd.h"

namespace seer {
namespace {

constexpr int kTileRows = 12;
constexpr int kValueRows = 6;
constexpr int kBlockVecs = kBlockTokens / kLanes;

// Keys and values of one kv head in one block, and how a query or a probability is broadcast.
template <typename T>
struct KVLayout;

template <>
struct KVLayout<float> {
  using Scalar = float;          // one broadcast operand
  static constexpr int kPer = 1;  // summed elements a broadcast operand holds
  static int64_t key_index(int d, int t) { return int64_t{d} * kBlockTokens + t; }
  static int64_t value_index(int d, int t, int dim) { return int64_t{t} * dim + d; }
  static Vec mul_add(Vec acc, const float* p, float x) { return acc + load_vec(p) * x; }
};

template <>
struct KVLayout<bf16> {
  using Scalar = uint32_t;
  static constexpr int kPer = 2;
  static int64_t key_index(int d, int t) {
    return (int64_t{d / 2} * kBlockTokens + t) * 2 + d % 2;
  }
  static int64_t value_index(int d, int t, int dim) {
    return (int64_t{t / 2} * dim + d) * 2 + t % 2;
  }
  static Vec mul_add(Vec acc, const bf16* p, uint32_t x) { return dot_pairs(acc, load_pairs(p), x); }
};

// Reused by every item that a thread handles.
template <typename T>
struct Scratch {
  std::vector<typename KVLayout<T>::Scalar> queries;  // [rows, dim / kPer]
  std::vector<float> scores;                          // [rows, padded context]
  std::vector<T> probs;                               // [rows, padded context]
};

// Blocks of one head lie far apart: the hardware does not foresee the jump to the next one.
template <typename T>
inline void prefetch(const T* data, int64_t count) {
  const char* bytes = reinterpret_cast<const char*>(data);
  for (int64_t i = 0; i < count * static_cast<int64_t>(sizeof(T)); i += 64) {
    __builtin_prefetch(bytes + i);
  }
}

template <typename T, int R>
void block_scores(const T* keys, const typename KVLayout<T>::Scalar* queries, int steps,
                  float scale, float* scores, int64_t score_stride) {
  constexpr int kPer = KVLayout<T>::kPer;
  Vec acc[R][kBlockVecs] = {};
  for (int i = 0; i < steps; ++i) {
    const T* row = keys + int64_t{i} * kBlockTokens * kPer;
    for (int v = 0; v < kBlockVecs; ++v) {
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        acc[r][v] = KVLayout<T>::mul_add(acc[r][v], row + v * kLanes * kPer, queries[r * steps + i]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < kBlockVecs; ++v) {
      store_vec(scores + r * score_stride + v * kLanes, acc[r][v] * scale);
    }
  }
}

// `out[r][0:64 or 16 * D]` += probabilities x values over all blocks; D vectors of 16 dims.
template <typename T, int R, int D>
void sum_values(const T* head_values, int64_t block_stride, const int32_t* table, int num_blocks,
                const typename KVLayout<T>::Scalar* probs, int64_t prob_stride, int dim,
                Vec (&acc)[kValueRows][4]) {
  constexpr int kPer = KVLayout<T>::kPer;
  constexpr int kSteps = kBlockTokens / kPer;
  Vec local[R][D] = {};
  for (int b = 0; b < num_blocks; ++b) {
    const T* values = head_values + table[b] * block_stride;
    if (b + 1 < num_blocks) {
      prefetch(head_values + table[b + 1] * block_stride, int64_t{dim} * kBlockTokens);
    }
    const auto* p = probs + int64_t{b} * kSteps;
    for (int i = 0; i < kSteps; ++i) {
      const T* row = values + int64_t{i} * dim * kPer;
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < D; ++v) {
          local[r][v] =
              KVLayout<T>::mul_add(local[r][v], row + v * kLanes * kPer, p[r * prob_stride + i]);
        }
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < D; ++v) acc[r][v] = local[r][v];
  }
}

template <typename T, int D>
void sum_values_rows(int rows, const T* head_values, int64_t block_stride, const int32_t* table,
                     int num_blocks, const typename KVLayout<T>::Scalar* probs,
                     int64_t prob_stride, int dim, Vec (&acc)[kValueRows][4]) {
  switch (rows) {
#define SEER_CASE(n)                                                                          \
  case n:                                                                                     \
    return sum_values<T, n, D>(head_values, block_stride, table, num_blocks, probs,           \
                               prob_stride, dim, acc);
    SEER_CASE(1) SEER_CASE(2) SEER_CASE(3) SEER_CASE(4) SEER_CASE(5) SEER_CASE(6)
#undef SEER_CASE
    default:
      std::abort();
  }
}

template <typename T>
void block_scores_rows(int rows, const T* keys, const typename KVLayout<T>::Scalar* queries,
                       int steps, float scale, float* scores, int64_t stride) {
  switch (rows) {
#define SEER_CASE(n) \
  case n:            \
    return block_scores<T, n>(keys, queries, steps, scale, scores, stride);
    SEER_CASE(1) SEER_CASE(2) SEER_CASE(3) SEER_CASE(4) SEER_CASE(5) SEER_CASE(6)
    SEER_CASE(7) SEER_CASE(8) SEER_CASE(9) SEER_CASE(10) SEER_CASE(11) SEER_CASE(12)
#undef SEER_CASE
    default:
      std::abort();
  }
}

// probs = e^(score - max) of what the row sees (see BatchLayout), zero elsewhere up to `padded`;
// returns 1 / sum.
template <typename T>
float softmax_row(float* scores, int seen, uint32_t also_seen, int padded, T* probs) {
  for (int t = seen; t < padded; ++t, also_seen >>= 1) {
    if ((also_seen & 1u) == 0) scores[t] = -1e30f;
  }
  Vec top = splat(-1e30f);
  for (int t = 0; t < padded; t += kLanes) top = max(top, load_vec(scores + t));
  const float highest = max(top);
  Vec total = {};
  for (int t = 0; t < padded; t += kLanes) {
    const Vec e = exp_vec(load_vec(scores + t) - highest);
    store_vec(probs + t, e);
    total = total + e;
  }
  return 1.0f / sum(total);
}

struct AttentionItem {
  int seq;
  int kv_head;
  int first_row;  // of the (query, grouped head) rows of the sequence
  int num_rows;
};

// Where the rows of an item lie and how far each one sees.
class ItemRows {
 public:
  ItemRows(const AttentionShape& shape, const BatchLayout& batch, const AttentionItem& item)
      : seen_(batch.seen + batch.query_start[item.seq]),
        also_seen_(batch.also_seen + batch.query_start[item.seq]),
        first_token_(batch.query_start[item.seq]),
        first_row_(item.first_row),
        first_head_(item.kv_head * (shape.num_heads / shape.num_kv_heads)),
        group_(shape.num_heads / shape.num_kv_heads),
        num_heads_(shape.num_heads),
        dim_(shape.head_dim),
        num_blocks_((longest(item.num_rows) + kBlockTokens - 1) / kBlockTokens) {}

  // Offset of row r's head vector in [rows, heads, dim].
  int64_t offset(int r) const {
    const int row = first_row_ + r;
    const int64_t token = first_token_ + row / group_;
    return (token * num_heads_ + first_head_ + row % group_) * dim_;
  }

  // What row r attends to, as in BatchLayout.
  int seen(int r) const { return seen_[(first_row_ + r) / group_]; }
  uint32_t also_seen(int r) const {
    return static_cast<uint32_t>(also_seen_[(first_row_ + r) / group_]);
  }

  // Blocks that hold all that any of the rows attends to.
  int num_blocks() const { return num_blocks_; }

 private:
  int longest(int num_rows) const {
    int most = 0;
    for (int r = 0; r < num_rows; ++r) {
      const uint32_t bits = also_seen(r);
      most = std::max(most, seen(r) + (bits != 0 ? 32 - __builtin_clz(bits) : 0));
    }
    return most;
  }

  const int32_t* seen_;
  const int32_t* also_seen_;
  int first_token_;
  int first_row_;
  int first_head_;
  int group_;
  int num_heads_;
  int dim_;
  int num_blocks_;
};

template <typename T>
void attend_item(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv,
                 const AttentionItem& item, const T* queries, T* out, Scratch<T>& scratch) {
  using Layout = KVLayout<T>;
  const int dim = shape.head_dim;
  const ItemRows rows_of(shape, batch, item);
  const int num_blocks = rows_of.num_blocks();
  const int padded = num_blocks * kBlockTokens;
  const int steps = dim / Layout::kPer;
  const int prob_stride = padded / Layout::kPer;
  scratch.queries.resize(kTileRows * steps);
  scratch.scores.resize(static_cast<size_t>(kTileRows) * padded);
  scratch.probs.resize(static_cast<size_t>(kTileRows) * padded);
  for (int r = 0; r < item.num_rows; ++r) {
    std::memcpy(scratch.queries.data() + r * steps, queries + rows_of.offset(r), dim * sizeof(T));
  }

  const int32_t* table = batch.block_table + int64_t{item.seq} * batch.table_stride;
  const int64_t head_size = int64_t{dim} * kBlockTokens;
  const T* keys = static_cast<const T*>(kv.kv_base) + item.kv_head * head_size;
  const T* values = keys + shape.num_kv_heads * head_size;
  for (int b = 0; b < num_blocks; ++b) {
    if (b + 1 < num_blocks) prefetch(keys + table[b + 1] * kv.block_stride, head_size);
    block_scores_rows<T>(item.num_rows, keys + table[b] * kv.block_stride, scratch.queries.data(),
                         steps, shape.scale, scratch.scores.data() + b * kBlockTokens, padded);
  }
  float inverse[kTileRows];
  for (int r = 0; r < item.num_rows; ++r) {
    float* row = scratch.scores.data() + static_cast<int64_t>(r) * padded;
    inverse[r] = softmax_row(row, rows_of.seen(r), rows_of.also_seen(r), padded,
                             scratch.probs.data() + int64_t{r} * padded);
  }
  for (int r = 0; r < item.num_rows; r += kValueRows) {
    const int rows = std::min(kValueRows, item.num_rows - r);
    for (int d = 0; d < dim; d += 4 * kLanes) {
      Vec acc[kValueRows][4];
      const int vecs = std::min(4, (dim - d) / kLanes);
      const T* part = values + int64_t{d} * Layout::kPer;
      const auto* probs = reinterpret_cast<const typename Layout::Scalar*>(
          scratch.probs.data() + int64_t{r} * padded);
      if (vecs == 4) {
        sum_values_rows<T, 4>(rows, part, kv.block_stride, table, num_blocks, probs, prob_stride,
                              dim, acc);
      } else {
        for (int v = 0; v < vecs; ++v) {
          Vec one[kValueRows][4];
          sum_values_rows<T, 1>(rows, part + int64_t{v} * kLanes * Layout::kPer, kv.block_stride,
                                table, num_blocks, probs, prob_stride, dim, one);
          for (int i = 0; i < rows; ++i) acc[i][v] = one[i][0];
        }
      }
      for (int i = 0; i < rows; ++i) {
        for (int v = 0; v < vecs; ++v) {
          store_vec(out + rows_of.offset(r + i) + d + v * kLanes, acc[i][v] * inverse[r + i]);
        }
      }
    }
  }
}

// Items of at most `item_rows` rows.
inline std::vector<AttentionItem> attention_items(const AttentionShape& shape,
                                                  const BatchLayout& batch, int item_rows) {
  const int group = shape.num_heads / shape.num_kv_heads;
  std::vector<AttentionItem> items;
  for (int s = 0; s < batch.num_seqs; ++s) {
    const int rows = (batch.query_start[s + 1] - batch.query_start[s]) * group;
    for (int h = 0; h < shape.num_kv_heads; ++h) {
      for (int r = 0; r < rows; r += item_rows) {
        items.push_back({s, h, r, std::min(item_rows, rows - r)});
      }
    }
  }
  return items;
}

}  // namespace
}  // namespace seer
