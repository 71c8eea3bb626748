// Rotary embedding, optional per-head norms, and writing keys and values to their blocks.
// Also moving the KV of single tokens from place to place.
#pragma once

#include <cmath>

#include "attention.h"

namespace seer {
namespace {

// One head vector of `dim` floats: optional RMS norm, then half-rotation by the given angles.
template <typename T>
void rotate_head(const T* in, const T* norm, float eps, const float* cosines, int dim,
                 float* out) {
  float mean_square = 0.0f;
  for (int d = 0; d < dim; ++d) out[d] = to_float(in[d]);
  if (norm != nullptr) {
    for (int d = 0; d < dim; ++d) mean_square += out[d] * out[d];
    const float factor = 1.0f / std::sqrt(mean_square / static_cast<float>(dim) + eps);
    for (int d = 0; d < dim; ++d) {
      T rounded;  // transformers rounds before the weight is applied
      from_float(out[d] * factor, &rounded);
      from_float(to_float(rounded) * to_float(norm[d]), &rounded);
      out[d] = to_float(rounded);
    }
  }
  const int half = dim / 2;
  const float* sines = cosines + half;
  for (int d = 0; d < half; ++d) {
    const float a = out[d];
    const float b = out[d + half];
    out[d] = a * cosines[d] - b * sines[d];
    out[d + half] = b * cosines[d] + a * sines[d];
  }
}

// Row r of qkv: rotated queries to `queries` [rows, heads, dim], key and value to their block.
template <typename T>
void store_row(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv, int row,
               const T* qkv, const float* rope, const T* q_norm, const T* k_norm, T* queries) {
  constexpr int kMaxDim = 512;
  float head[kMaxDim];
  const int dim = shape.head_dim;
  const int position = batch.positions[row];
  const float* angles = rope + int64_t{position} * dim;
  const T* in = qkv + int64_t{row} * (shape.num_heads + 2 * shape.num_kv_heads) * dim;
  T* query = queries + int64_t{row} * shape.num_heads * dim;
  for (int h = 0; h < shape.num_heads; ++h) {
    rotate_head(in + h * dim, q_norm, shape.qk_norm_eps, angles, dim, head);
    for (int d = 0; d < dim; ++d) from_float(head[d], query + h * dim + d);
  }
  const int32_t* table = batch.block_table + int64_t{batch.row_seq[row]} * batch.table_stride;
  const int slot = batch.slots[row];
  const int offset = slot % kBlockTokens;
  T* keys = static_cast<T*>(kv.kv_base) + table[slot / kBlockTokens] * kv.block_stride;
  const int64_t head_size = int64_t{dim} * kBlockTokens;
  T* values = keys + shape.num_kv_heads * head_size;
  const T* key = in + shape.num_heads * dim;
  const T* value = key + shape.num_kv_heads * dim;
  for (int h = 0; h < shape.num_kv_heads; ++h) {
    rotate_head(key + h * dim, k_norm, shape.qk_norm_eps, angles, dim, head);
    for (int d = 0; d < dim; ++d) {
      from_float(head[d], keys + h * head_size + KVLayout<T>::key_index(d, offset));
      values[h * head_size + KVLayout<T>::value_index(d, offset, dim)] = value[h * dim + d];
    }
  }
}

// One token's keys and values in one layer, from a place in one block to a place in another.
template <typename T>
void move_token(const AttentionShape& shape, const T* source, int from, T* target, int to) {
  const int dim = shape.head_dim;
  const int64_t head_size = int64_t{dim} * kBlockTokens;
  const int64_t values = shape.num_kv_heads * head_size;
  for (int h = 0; h < shape.num_kv_heads; ++h) {
    const int64_t head = h * head_size;
    for (int d = 0; d < dim; ++d) {
      using Layout = KVLayout<T>;
      target[head + Layout::key_index(d, to)] = source[head + Layout::key_index(d, from)];
      target[values + head + Layout::value_index(d, to, dim)] =
          source[values + head + Layout::value_index(d, from, dim)];
    }
  }
}

}  // namespace
}  // namespace seer
