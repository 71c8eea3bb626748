// Sixteen float lanes as a compiler vector: one source for every instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace seer {
namespace {

constexpr int kLanes = 16;
typedef float Vec __attribute__((vector_size(64)));
typedef int32_t IVec __attribute__((vector_size(64)));
typedef uint32_t UVec __attribute__((vector_size(64)));
typedef uint16_t HVec __attribute__((vector_size(32)));

struct bf16 {
  uint16_t bits;
};

inline Vec splat(float x) { return x - Vec{}; }

inline Vec load_vec(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline void store_vec(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

inline Vec bits_to_vec(UVec bits) {
  Vec v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

inline UVec vec_to_bits(Vec v) {
  UVec bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

inline Vec widen(HVec half) {
#if defined(__AVX512F__)  // gcc 12 makes two halves of the conversion below
  return bits_to_vec(
      reinterpret_cast<UVec>(_mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(half))) << 16);
#else
  return bits_to_vec(__builtin_convertvector(half, UVec) << 16);
#endif
}

// To bfloat16, nearest even as torch does. NaN does not occur; the instruction flushes subnormals.
inline HVec narrow(Vec v) {
#if defined(__AVX512BF16__)
  return reinterpret_cast<HVec>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(v)));
#else
  UVec bits = vec_to_bits(v);
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return __builtin_convertvector(bits, HVec);
#endif
}

inline Vec load_vec(const bf16* p) {
  HVec half;
  std::memcpy(&half, p, sizeof half);
  return widen(half);
}

inline void store_vec(bf16* p, Vec v) {
  const HVec half = narrow(v);
  std::memcpy(p, &half, sizeof half);
}

// What a store as T and a load give back.
template <typename T>
inline Vec rounded(Vec v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return v;
  } else {
    return widen(narrow(v));
  }
}

inline float to_float(float x) { return x; }

inline float to_float(bf16 x) {
  uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

inline void from_float(float x, float* out) { *out = x; }

inline void from_float(float x, bf16* out) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  out->bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline Vec max(Vec a, Vec b) { return a > b ? a : b; }

// Of all lanes, halves first; the instructions below go through the lanes in the same order.
inline float sum(Vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(reinterpret_cast<__m512>(v));
#else
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
#endif
}

inline float max(Vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(reinterpret_cast<__m512>(v));
#else
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  }
  return v[0];
#endif
}

// e^x for x <= 0 (softmax, silu): relative error below 2e-7, exactly 0 under -87.3.
inline Vec exp_vec(Vec x) {
  const Vec lowest = splat(-87.3f);
  const IVec tiny = x < lowest;
  x = max(x, lowest);
  const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec shifted = x * 1.44269504088896341f + magic;
  const Vec n = shifted - magic;
  Vec r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  Vec p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const UVec exponent = (vec_to_bits(shifted) - vec_to_bits(magic)) << 23;
  const UVec result = vec_to_bits(p) + exponent;
  return bits_to_vec(result & ~reinterpret_cast<const UVec&>(tiny));
}

// acc + sum over one pair: `pairs` holds 16 pairs of bfloat16, `both` one pair for all lanes.
inline Vec dot_pairs(Vec acc, UVec pairs, uint32_t both) {
#if defined(__AVX512BF16__)
  const __m512i broadcast = _mm512_set1_epi32(static_cast<int>(both));
  return reinterpret_cast<Vec>(_mm512_dpbf16_ps(
      reinterpret_cast<__m512>(acc), reinterpret_cast<__m512bh>(pairs),
      reinterpret_cast<__m512bh>(broadcast)));
#else
  const float low = to_float(bf16{static_cast<uint16_t>(both & 0xffffu)});
  const float high = to_float(bf16{static_cast<uint16_t>(both >> 16)});
  acc = acc + bits_to_vec(pairs << 16) * low;
  return acc + bits_to_vec(pairs & 0xffff0000u) * high;
#endif
}

inline UVec load_pairs(const void* p) {
  UVec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace
}  // namespace seer
