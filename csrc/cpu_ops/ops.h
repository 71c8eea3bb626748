// The small operations of a decoder step on a CPU: everything between two matrix products.
//
// The file ops.cpp is compiled once for each instruction set (see CMakeLists.txt); `supported_ops()`
// lists the tables this processor can run. No Python, no allocation of outputs, no threads of
// its own beyond OpenMP regions: the same libgomp that torch has loaded serves both.
#pragma once

#include <cstdint>
#include <vector>

namespace seer {

// Tokens in one KV block. Fixed, so that kernels keep a whole block's scores in registers.
constexpr int kBlockTokens = 32;

enum class DType : int { kFloat32 = 0, kBFloat16 = 1 };

// Constant of a model.
struct AttentionShape {
  int num_heads;          // query heads
  int num_kv_heads;       // key/value heads; divides num_heads
  int head_dim;           // multiple of 16
  float scale;            // score = scale * <q, k>
  float qk_norm_eps;      // used only with qk norm weights
};

// One ragged step: row r is a token of sequence row_seq[r]; the rows of a sequence are consecutive.
// Its KV is written to slot slots[r] under the sequence's block table. It attends to slots 0 to
// seen[r] - 1, and to slot seen[r] + i where bit i of also_seen[r] is set: a draft tree's node sees
// its ancestors and itself. Rows that are no such nodes have slots = positions, seen = positions + 1
// and no bits.
struct BatchLayout {
  int num_rows;
  int num_seqs;
  const int32_t* positions;     // [num_rows]: place in the text, for the rotary embedding
  const int32_t* slots;         // [num_rows]
  const int32_t* seen;          // [num_rows], at least 1
  const int32_t* also_seen;     // [num_rows], 32 bits
  const int32_t* row_seq;       // [num_rows]
  const int32_t* query_start;   // [num_seqs + 1]: first row of each sequence
  const int32_t* block_table;   // [num_seqs, table_stride]
  int table_stride;
};

// Per-layer inputs of attention. `kv_base` points at this layer's part of block 0; block b lies
// `block_stride` elements further on. A layer's part holds keys, then values:
//   float32:  K [kv_heads][head_dim][32],      V [kv_heads][32][head_dim]
//   bfloat16: K [kv_heads][head_dim/2][32][2], V [kv_heads][16][head_dim][2]
// i.e. keys are transposed, and bfloat16 values are interleaved in pairs along the summed axis, so
// that a dot-product instruction reads both operands with plain loads.
struct LayerKV {
  void* kv_base;
  int64_t block_stride;
};

// How the token of one row is drawn.
struct SampleRow {
  float temperature;  // 0: greedy
  float top_p;        // 1: off
  float min_p;        // 0: off
  int32_t top_k;      // 0: off
  double uniform;     // in [0, 1)
};

struct OpsTable {
  const char* name;

  // residual += x (when residual is given); out = rms_norm(residual or x) * weight. [rows, dim]
  void (*add_rms_norm)(DType, int rows, int dim, const void* x, void* residual,
                       const void* weight, float eps, void* out);

  // Rotary embedding (half-rotation) of q and k with optional per-head norms, KV written to the
  // blocks, then causal attention. qkv [rows, (heads + 2 kv_heads) * dim], out [rows, heads * dim],
  // rope [positions, 2, dim/2] float32: cosines, then sines.
  void (*attend)(DType, const AttentionShape&, const BatchLayout&, const LayerKV&, const void* qkv,
                 const float* rope, const void* q_norm, const void* k_norm, void* out);

  // out = silu(gate) * up, gate_up [rows, 2 * dim].
  void (*silu_mul)(DType, int rows, int dim, const void* gate_up, void* out);

  // Copies the KV of single tokens within `memory` (block 0's first layer), in all layers and in
  // order: moves [count, 4] of source block, offset in it, target block, offset in it.
  void (*move_tokens)(DType, const AttentionShape&, void* memory, int64_t block_stride,
                      int64_t layer_stride, int num_layers, int count, const int32_t* moves);

  // Inverse CDF over the processed distribution, tokens in id order. `raw` asks for the
  // log-probability under the unprocessed distribution. logits [rows, vocab].
  void (*sample)(DType, int rows, int vocab, const void* logits, const SampleRow* how, bool raw,
                 int32_t* tokens, float* logprobs);
};

// The tables that this processor can run, best first.
std::vector<const OpsTable*> supported_ops();

}  // namespace seer
