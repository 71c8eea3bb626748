// The operations for one instruction set; SEER_ISA names the table (see CMakeLists.txt).
#include "ops.h"

#include <cmath>

#include "attention.h"
#if defined(__AMX_BF16__)
#include "attention_amx.h"
#endif
#include "rotary.h"
#include "sampling.h"
#include "simd.h"

#define SEER_STRING(x) #x
#define SEER_NAME(x) SEER_STRING(x)

namespace seer {
namespace {

// Below this many elements a parallel region costs more than it saves.
constexpr int64_t kParallelElements = 16384;

template <typename T>
void add_rms_norm(int rows, int dim, const T* x, T* residual, const T* weight, float eps, T* out) {
#pragma omp parallel for if (int64_t{rows} * dim >= kParallelElements)
  for (int row = 0; row < rows; ++row) {
    const int64_t at = int64_t{row} * dim;
    Vec squares = {};
    for (int i = 0; i < dim; i += kLanes) {
      Vec v = load_vec(x + at + i);
      if (residual != nullptr) {
        v = rounded<T>(v + load_vec(residual + at + i));
        store_vec(residual + at + i, v);
      }
      squares = squares + v * v;
    }
    const float factor = 1.0f / std::sqrt(sum(squares) / static_cast<float>(dim) + eps);
    const T* in = residual != nullptr ? residual : x;
    for (int i = 0; i < dim; i += kLanes) {
      // transformers rounds before the weight is applied
      const Vec normed = rounded<T>(load_vec(in + at + i) * factor);
      store_vec(out + at + i, normed * load_vec(weight + i));
    }
  }
}

template <typename T>
void silu_mul(int rows, int dim, const T* gate_up, T* out) {
#pragma omp parallel for if (int64_t{rows} * dim >= kParallelElements)
  for (int row = 0; row < rows; ++row) {
    const T* gate = gate_up + int64_t{row} * 2 * dim;
    for (int i = 0; i < dim; i += kLanes) {
      const Vec g = load_vec(gate + i);
      const Vec e = exp_vec(g < 0.0f ? g : -g);  // never overflows
      const Vec sigmoid = (g < 0.0f ? e : splat(1.0f)) / (e + 1.0f);
      // transformers rounds the activation
      store_vec(out + int64_t{row} * dim + i,
                rounded<T>(g * sigmoid) * load_vec(gate + dim + i));
    }
  }
}

// How one thread attends: how many rows it takes at once, and the scratch it keeps between items.
template <typename T>
struct Attender {
  static int item_rows(const AttentionShape&) { return kTileRows; }

  void operator()(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv,
                  const AttentionItem& item, const T* queries, T* out) {
    attend_item<T>(shape, batch, kv, item, queries, out, scratch);
  }

  Scratch<T> scratch;
};

#if defined(__AMX_BF16__)
template <>
struct Attender<bf16> {
  static bool has_tiles(const AttentionShape& shape) {
    return shape.head_dim % kTileDepth == 0 && shape.head_dim <= kMaxAmxDim;
  }

  static int item_rows(const AttentionShape& shape) {
    return has_tiles(shape) ? kAmxRows : kTileRows;
  }

  void operator()(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv,
                  const AttentionItem& item, const bf16* queries, bf16* out) {
    if (!has_tiles(shape)) {
      return attend_item<bf16>(shape, batch, kv, item, queries, out, scratch);
    }
    static thread_local AmxScratch amx;
    tiles.configure(item.num_rows);
    if (item.num_rows > kTile) {
      attend_tiles<2>(shape, batch, kv, item, queries, out, amx);
    } else {
      attend_tiles<1>(shape, batch, kv, item, queries, out, amx);
    }
  }

  Scratch<bf16> scratch;
  TileState tiles;
};
#endif

template <typename T>
void attend(const AttentionShape& shape, const BatchLayout& batch, const LayerKV& kv,
            const T* qkv, const float* rope, const T* q_norm, const T* k_norm, T* out) {
  const auto items = attention_items(shape, batch, Attender<T>::item_rows(shape));
  const int num_items = static_cast<int>(items.size());
  std::vector<T> queries(static_cast<size_t>(batch.num_rows) * shape.num_heads * shape.head_dim);
#pragma omp parallel
  {
#pragma omp for
    for (int row = 0; row < batch.num_rows; ++row) {
      store_row<T>(shape, batch, kv, row, qkv, rope, q_norm, k_norm, queries.data());
    }
    Attender<T> attender;
#pragma omp for schedule(dynamic, 1)
    for (int i = 0; i < num_items; ++i) {
      attender(shape, batch, kv, items[i], queries.data(), out);
    }
  }
}

template <typename T>
void move_tokens(const AttentionShape& shape, T* memory, int64_t block_stride,
                 int64_t layer_stride, int num_layers, int count, const int32_t* moves) {
  for (int i = 0; i < count; ++i) {
    const int32_t* move = moves + 4 * i;
    for (int layer = 0; layer < num_layers; ++layer) {
      T* part = memory + layer * layer_stride;
      move_token<T>(shape, part + move[0] * block_stride, move[1], part + move[2] * block_stride,
                    move[3]);
    }
  }
}

template <typename T>
void sample(int rows, int vocab, const T* logits, const SampleRow* how, bool raw, int32_t* tokens,
            float* logprobs) {
#pragma omp parallel
  {
    SampleScratch scratch;
#pragma omp for schedule(dynamic, 1)
    for (int row = 0; row < rows; ++row) {
      load_logits(logits + int64_t{row} * vocab, vocab, &scratch);
      const Drawn drawn = draw(how[row], raw, scratch);
      tokens[row] = drawn.token;
      logprobs[row] = drawn.logprob;
    }
  }
}

template <typename F>
void by_dtype(DType dtype, F&& run) {
  if (dtype == DType::kFloat32) {
    run(float{});
  } else {
    run(bf16{});
  }
}

template <typename T>
const T* in(const void* p) {
  return static_cast<const T*>(p);
}

template <typename T>
T* out_of(void* p) {
  return static_cast<T*>(p);
}

void add_rms_norm_any(DType dtype, int rows, int dim, const void* x, void* residual,
                      const void* weight, float eps, void* out) {
  by_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    add_rms_norm<T>(rows, dim, in<T>(x), out_of<T>(residual), in<T>(weight), eps, out_of<T>(out));
  });
}

void attend_any(DType dtype, const AttentionShape& shape, const BatchLayout& batch,
                const LayerKV& kv, const void* qkv, const float* rope, const void* q_norm,
                const void* k_norm, void* out) {
  by_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    attend<T>(shape, batch, kv, in<T>(qkv), rope, in<T>(q_norm), in<T>(k_norm), out_of<T>(out));
  });
}

void move_tokens_any(DType dtype, const AttentionShape& shape, void* memory, int64_t block_stride,
                     int64_t layer_stride, int num_layers, int count, const int32_t* moves) {
  by_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    move_tokens<T>(shape, out_of<T>(memory), block_stride, layer_stride, num_layers, count, moves);
  });
}

void silu_mul_any(DType dtype, int rows, int dim, const void* gate_up, void* out) {
  by_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    silu_mul<T>(rows, dim, in<T>(gate_up), out_of<T>(out));
  });
}

void sample_any(DType dtype, int rows, int vocab, const void* logits, const SampleRow* how,
                bool raw, int32_t* tokens, float* logprobs) {
  by_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    sample<T>(rows, vocab, in<T>(logits), how, raw, tokens, logprobs);
  });
}

}  // namespace

extern const OpsTable SEER_ISA;
const OpsTable SEER_ISA = {SEER_NAME(SEER_ISA), add_rms_norm_any, attend_any, silu_mul_any,
                           move_tokens_any, sample_any};

}  // namespace seer
