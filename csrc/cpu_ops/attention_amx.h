// Attention of bfloat16 rows on AMX tiles. Included by ops.cpp in the table `ops_amx`.
//
// A tile multiplies 16 rows by 32 summed elements; its right operand holds pairs of summed elements
// side by side, which is how blocks store keys and values (ops.h): both are loaded as they lie.
// An item is up to 32 rows, two tiles of them, so that each tile of keys or values serves both.
// The context is walked in chunks of 4 blocks with the softmax kept online (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3), which bounds the
// scratch. Chunks begin at fixed places and masked tokens weigh exactly zero: a row's result does
// not depend on the rows beside it.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "attention.h"

namespace seer {
namespace {

constexpr int kTile = 16;      // rows of a tile, and its float columns
constexpr int kTileDepth = 32;  // summed elements of a bfloat16 tile
constexpr int kAmxRows = 2 * kTile;
constexpr int kChunkBlocks = 4;  // scores and probabilities of a chunk stay in the first cache
constexpr int kMaxAmxDim = 256;
static_assert(kBlockTokens == kTileDepth, "a block of values is one tile deep");

struct alignas(64) AmxScratch {
  bf16 queries[kMaxAmxDim / kTileDepth][kAmxRows][kTileDepth];
  float scores[kChunkBlocks][kAmxRows][kBlockTokens];
  bf16 probs[kChunkBlocks][kAmxRows][kBlockTokens];
  float sums[kMaxAmxDim / kTile][kAmxRows][kTile];  // probabilities x values so far
  float top[kAmxRows];                              // highest score so far
  float total[kAmxRows];                            // sum of probabilities so far
};

// Tile roles: 0..3 results [row tile][column tile], 4..5 left operands, 6..7 right operands.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

// The intrinsics do not say that they touch memory: no load or store moves across this.
inline void memory_fence() { asm volatile("" ::: "memory"); }

// Keeps what tiles other code of this thread (oneDNN) has configured, and puts it back.
class TileState {
 public:
  TileState() {
    _tile_storeconfig(&before_);
    memory_fence();
  }
  ~TileState() {
    if (before_.palette == 0) {
      _tile_release();
    } else {
      _tile_loadconfig(&before_);
    }
  }
  TileState(const TileState&) = delete;
  TileState& operator=(const TileState&) = delete;

  // Tiles for items of `rows` rows: rows that are not there cost no time.
  void configure(int rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const auto first = static_cast<uint8_t>(std::min(rows, kTile));
    const auto second = static_cast<uint8_t>(rows - first);
    const uint8_t tiles[8] = {first, first, second, second, first, second, kTile, kTile};
    TileConfig config{};
    config.palette = 1;
    for (int t = 0; t < 8; ++t) {
      config.rows[t] = tiles[t];
      config.row_bytes[t] = tiles[t] > 0 ? 64 : 0;
    }
    memory_fence();
    _tile_loadconfig(&config);
    memory_fence();
  }

 private:
  TileConfig before_{};
  int rows_ = 0;
};

// scores = queries x keys of one block; kRowTiles tiles of rows.
template <int kRowTiles>
void tile_scores(const bf16* keys, int dim, const AmxScratch& s, float (*scores)[kBlockTokens]) {
  constexpr int kKeyStride = kBlockTokens * 2 * sizeof(bf16);
  constexpr int kQueryStride = kTileDepth * sizeof(bf16);
  constexpr int kScoreStride = kBlockTokens * sizeof(float);
  memory_fence();
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kRowTiles == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int d = 0; d < dim; d += kTileDepth) {
    const bf16* part = keys + int64_t{d} * kBlockTokens;
    _tile_loadd(6, part, kKeyStride);
    _tile_loadd(7, part + 2 * kTile, kKeyStride);
    _tile_loadd(4, s.queries[d / kTileDepth][0], kQueryStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, s.queries[d / kTileDepth][kTile], kQueryStride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, scores[0], kScoreStride);
  _tile_stored(1, scores[0] + kTile, kScoreStride);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, scores[kTile], kScoreStride);
    _tile_stored(3, scores[kTile] + kTile, kScoreStride);
  }
  memory_fence();
}

// sums += probabilities x values of a chunk, for 32 dims from `d` on.
template <int kRowTiles>
void tile_values(const bf16* values, int64_t block_stride, const int32_t* table, int num_blocks,
                 int dim, int d, AmxScratch& s) {
  constexpr int kProbStride = kBlockTokens * sizeof(bf16);
  constexpr int kSumStride = kTile * sizeof(float);
  const int value_stride = dim * 2 * static_cast<int>(sizeof(bf16));
  auto* left = s.sums[d / kTile];
  auto* right = s.sums[d / kTile + 1];
  memory_fence();
  _tile_loadd(0, left[0], kSumStride);
  _tile_loadd(1, right[0], kSumStride);
  if constexpr (kRowTiles == 2) {
    _tile_loadd(2, left[kTile], kSumStride);
    _tile_loadd(3, right[kTile], kSumStride);
  }
  for (int b = 0; b < num_blocks; ++b) {
    const bf16* part = values + table[b] * block_stride + int64_t{d} * 2;
    _tile_loadd(6, part, value_stride);
    _tile_loadd(7, part + 2 * kTile, value_stride);
    _tile_loadd(4, s.probs[b][0], kProbStride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kRowTiles == 2) {
      _tile_loadd(5, s.probs[b][kTile], kProbStride);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, left[0], kSumStride);
  _tile_stored(1, right[0], kSumStride);
  if constexpr (kRowTiles == 2) {
    _tile_stored(2, left[kTile], kSumStride);
    _tile_stored(3, right[kTile], kSumStride);
  }
  memory_fence();
}

// Asks for one head's part of several blocks, a few cache lines at a time between other work. The
// blocks lie far apart, so that the processor foresees little of it, and it keeps only a dozen or so
// misses open: a whole block at once would stall what comes next.
class BlockPrefetch {
 public:
  BlockPrefetch(const bf16* head, int64_t block_stride, const int32_t* table, int num_blocks,
                int dim)
      : head_(head), block_stride_(block_stride), table_(table), num_blocks_(num_blocks),
        lines_(dim * kBlockTokens / kLineElements) {}

  // Goes on until `done` of `all` parts have been asked for.
  void advance(int done, int all) {
    const int goal = num_blocks_ * lines_ * done / all;
    while (asked_ < goal) {
      const int count = std::min(goal - asked_, lines_ - line_);
      const bf16* from = head_ + *table_ * block_stride_ + line_ * kLineElements;
      for (int i = 0; i < count; ++i) __builtin_prefetch(from + i * kLineElements, 0, 2);
      asked_ += count;
      line_ += count;
      if (line_ == lines_) {
        line_ = 0;
        ++table_;
      }
    }
  }

 private:
  static constexpr int kLineElements = 64 / sizeof(bf16);
  const bf16* head_;
  int64_t block_stride_;
  const int32_t* table_;
  int num_blocks_;
  int lines_;  // of one block
  int line_ = 0;
  int asked_ = 0;
};

// 2^x for x <= 0, relative error below 3e-6: what is rounded to bfloat16 needs no more.
inline __m512 exp2_vec(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x - floor(x)
  __m512 p = _mm512_set1_ps(1.353416793e-2f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.201146254e-2f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.414427541e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.930038355e-1f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.000002593f));
  return _mm512_scalef_ps(p, x);  // p * 2^floor(x)
}

inline __mmask16 first_lanes(int count) {
  return static_cast<__mmask16>((1u << std::clamp(count, 0, kLanes)) - 1u);
}

// Lanes that a row sees of 16 slots of which the first `left` come before its `seen`; see
// BatchLayout.
inline __mmask16 seen_lanes(int left, uint32_t also_seen) {
  uint32_t others = 0;
  if (left >= 0 && left < kLanes) others = also_seen << left;
  if (left < 0 && left > -32) others = also_seen >> -left;
  return static_cast<__mmask16>(first_lanes(left) | others);
}

// Scores of one row in a chunk to probabilities; `seen` is counted from the chunk's first slot. What
// was summed before is rescaled when the highest score rises. `factor` turns scores to powers of two.
inline void chunk_softmax(int row, int seen, uint32_t also_seen, int num_blocks, float factor,
                          int dim, AmxScratch& s) {
  __m512 highest = _mm512_set1_ps(s.top[row]);
  for (int b = 0; b < num_blocks; ++b) {
    const float* scores = s.scores[b][row];
    const int left = seen - b * kBlockTokens;
    highest = _mm512_mask_max_ps(highest, seen_lanes(left, also_seen), highest,
                                 _mm512_load_ps(scores));
    highest = _mm512_mask_max_ps(highest, seen_lanes(left - kLanes, also_seen), highest,
                                 _mm512_load_ps(scores + kLanes));
  }
  const float top = _mm512_reduce_max_ps(highest);
  const __m512 scale = _mm512_set1_ps(factor);
  const __m512 shift = _mm512_set1_ps(-top * factor);
  __m512 total = _mm512_setzero_ps();
  for (int b = 0; b < num_blocks; ++b) {
    const float* scores = s.scores[b][row];
    const int left = seen - b * kBlockTokens;
    const __m512 low = _mm512_maskz_mov_ps(
        seen_lanes(left, also_seen), exp2_vec(_mm512_fmadd_ps(_mm512_load_ps(scores), scale, shift)));
    const __m512 high = _mm512_maskz_mov_ps(
        seen_lanes(left - kLanes, also_seen),
        exp2_vec(_mm512_fmadd_ps(_mm512_load_ps(scores + kLanes), scale, shift)));
    total = _mm512_add_ps(total, _mm512_add_ps(low, high));
    const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
    std::memcpy(s.probs[b][row], &both, sizeof both);
  }
  if (top > s.top[row]) {
    const __m512 before = _mm512_set1_ps((s.top[row] - top) * factor);
    const __m512 rescale = exp2_vec(before);
    for (int d = 0; d < dim; d += kTile) {
      float* sums = s.sums[d / kTile][row];
      _mm512_store_ps(sums, _mm512_mul_ps(_mm512_load_ps(sums), rescale));
    }
    s.total[row] *= _mm512_cvtss_f32(rescale);
    s.top[row] = top;
  }
  s.total[row] += _mm512_reduce_add_ps(total);
}

// The rows' queries in the order that tiles load, and nothing summed yet.
inline void begin_rows(const ItemRows& rows_of, int rows, int dim, const bf16* queries,
                       AmxScratch& s) {
  for (int r = 0; r < rows; ++r) {
    const bf16* query = queries + rows_of.offset(r);
    for (int d = 0; d < dim; d += kTileDepth) {
      std::memcpy(s.queries[d / kTileDepth][r], query + d, kTileDepth * sizeof(bf16));
    }
    for (int d = 0; d < dim; d += kTile) std::memset(s.sums[d / kTile][r], 0, sizeof s.sums[0][0]);
    s.top[r] = -1e30f;
    s.total[r] = 0.0f;
  }
}

template <int kRowTiles>
void attend_tiles(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv,
                  const AttentionItem& item, const bf16* queries, bf16* out, AmxScratch& s) {
  const int dim = shape.head_dim;
  const ItemRows rows_of(shape, batch, item);
  const int64_t head_size = int64_t{dim} * kBlockTokens;
  const bf16* keys = static_cast<const bf16*>(kv.kv_base) + item.kv_head * head_size;
  const bf16* values = keys + shape.num_kv_heads * head_size;
  const float factor = shape.scale * 1.44269504088896341f;  // e^x = 2^(x log2 e)
  const int32_t* table = batch.block_table + int64_t{item.seq} * batch.table_stride;
  int blocks = std::min(kChunkBlocks, rows_of.num_blocks());
  BlockPrefetch(keys, kv.block_stride, table, blocks, dim).advance(1, 1);
  begin_rows(rows_of, item.num_rows, dim, queries, s);
  for (int start = 0; start < rows_of.num_blocks(); start += kChunkBlocks, table += kChunkBlocks) {
    for (int b = 0; b < blocks; ++b) {
      tile_scores<kRowTiles>(keys + table[b] * kv.block_stride, dim, s, s.scores[b]);
    }
    BlockPrefetch chunk_values(values, kv.block_stride, table, blocks, dim);
    for (int r = 0; r < item.num_rows; ++r) {
      chunk_values.advance(r + 1, item.num_rows);
      chunk_softmax(r, rows_of.seen(r) - start * kBlockTokens, rows_of.also_seen(r), blocks, factor,
                    dim, s);
    }
    const int next = std::clamp(rows_of.num_blocks() - start - kChunkBlocks, 0, kChunkBlocks);
    BlockPrefetch next_keys(keys, kv.block_stride, table + kChunkBlocks, next, dim);
    for (int d = 0; d < dim; d += kTileDepth) {
      tile_values<kRowTiles>(values, kv.block_stride, table, blocks, dim, d, s);
      next_keys.advance(d + kTileDepth, dim);
    }
    blocks = next;
  }
  for (int r = 0; r < item.num_rows; ++r) {
    const float inverse = 1.0f / s.total[r];
    bf16* row = out + rows_of.offset(r);
    for (int d = 0; d < dim; d += kTile) {
      store_vec(row + d, load_vec(s.sums[d / kTile][r]) * inverse);
    }
  }
}

}  // namespace
}  // namespace seer
