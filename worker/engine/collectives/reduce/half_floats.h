#pragma once

#include <cstdint>

#include "worker/engine/collectives/reduce/elements.h"

// Conversions between float32 and its 16-bit relatives: IEEE 754 binary16, and bfloat16, the upper
// half of a float32. Both round to the nearest, ties to even. NaN stays a quiet NaN with the upper
// bits of its payload. Without branches, so that compilers turn loops of them into vector
// instructions. The bits are those of the F16C and AVX512_BF16 instructions, which this code does
// not need; but subnormal numbers are kept.

namespace dp::engine {

#define DP_ALWAYS_INLINE inline __attribute__((always_inline))

DP_ALWAYS_INLINE uint32_t BitsOf(float value) { return __builtin_bit_cast(uint32_t, value); }
DP_ALWAYS_INLINE float FloatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

DP_ALWAYS_INLINE float ToFloat(Bfloat16 value) { return FloatOf(uint32_t{value.bits} << 16); }

DP_ALWAYS_INLINE Bfloat16 ToBfloat16(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

// The exponents differ by 112. Multiplying by 2^112 moves them, and makes subnormal numbers normal.
DP_ALWAYS_INLINE float ToFloat(Float16 value) {
  const uint32_t magnitude = uint32_t{value.bits & 0x7fffu} << 13;
  const uint32_t finite = BitsOf(FloatOf(magnitude) * 0x1p112f);
  const uint32_t infinite = magnitude | 0x7f800000;
  const uint32_t quiet = (value.bits & 0x7fff) > 0x7c00 ? 0x00400000 : 0;
  const bool is_finite = (value.bits & 0x7c00) != 0x7c00;
  return FloatOf((is_finite ? finite : infinite | quiet) | uint32_t{value.bits & 0x8000u} << 16);
}

DP_ALWAYS_INLINE Float16 ToFloat16(float value) {
  constexpr uint32_t kInfinity = 0x7f800000;
  constexpr uint32_t kOverflow = 0x47800000;   // 2^16: rounds to infinity, as all above
  constexpr uint32_t kNormalMin = 0x38800000;  // 2^-14
  const uint32_t sign = BitsOf(value) & 0x80000000, bits = BitsOf(value) ^ sign;
  // Adding 0.5 shifts a subnormal result to the lowest bits, and rounds it.
  const uint32_t subnormal = BitsOf(FloatOf(bits) + 0.5f) - BitsOf(0.5f);
  const uint32_t normal = (bits - (uint32_t{112} << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
  const uint32_t nan = 0x7e00 | ((bits >> 13) & 0x1ff);
  const uint32_t large = bits > kInfinity ? nan : 0x7c00;
  const uint32_t small = bits < kNormalMin ? subnormal : normal;
  return {static_cast<uint16_t>((bits >= kOverflow ? large : small) | sign >> 16)};
}

}  // namespace dp::engine
