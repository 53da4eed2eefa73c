#pragma once

#include "worker/engine/collectives/reduce/half_floats.h"
#include "worker/engine/collectives/reduce/reduce_loops.h"

// The loops themselves. Each source that includes this is compiled for another instruction set.
// Everything here is private to that source, and calls no inline function from elsewhere. Otherwise
// the linker could choose a copy that other processors cannot run.

namespace dp::engine {
namespace {

// Integers wrap around, as torch's do; for signed ones C++ leaves that undefined.
template <typename T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};

struct LoopSum {
  template <typename T>
  DP_ALWAYS_INLINE static T Of(T a, T b) {
    using U = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct LoopProduct {
  template <typename T>
  DP_ALWAYS_INLINE static T Of(T a, T b) {
    using U = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct LoopMin {
  template <typename T>
  DP_ALWAYS_INLINE static T Of(T a, T b) {
    return b < a ? b : a;
  }
};
struct LoopMax {
  template <typename T>
  DP_ALWAYS_INLINE static T Of(T a, T b) {
    return a < b ? b : a;
  }
};

// `out` may be `a` or `b`, which the simd pragma allows: no element depends on another.
template <typename Op, typename T>
void CombineLoop(const void* a, const void* b, size_t count, void* out) {
  const auto* const left = static_cast<const T*>(a);
  const auto* const right = static_cast<const T*>(b);
  auto* const result = static_cast<T*>(out);
#pragma omp simd
  for (size_t i = 0; i < count; ++i) result[i] = Op::Of(left[i], right[i]);
}

template <typename Half>
void WidenLoop(const void* halves, size_t count, float* out) {
  const auto* const from = static_cast<const Half*>(halves);
#pragma omp simd
  for (size_t i = 0; i < count; ++i) out[i] = ToFloat(from[i]);
}

void NarrowToFloat16(const float* values, size_t count, void* halves) {
  auto* const to = static_cast<Float16*>(halves);
#pragma omp simd
  for (size_t i = 0; i < count; ++i) to[i] = ToFloat16(values[i]);
}

void NarrowToBfloat16(const float* values, size_t count, void* halves) {
  auto* const to = static_cast<Bfloat16*>(halves);
#pragma omp simd
  for (size_t i = 0; i < count; ++i) to[i] = ToBfloat16(values[i]);
}

template <typename T>
void ScaleLoop(T* values, size_t count, T by) {
#pragma omp simd
  for (size_t i = 0; i < count; ++i) values[i] *= by;
}

template <typename T>
ReduceLoops::Combine CombineOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      return CombineLoop<LoopSum, T>;
    case ReduceOp::kMin:
      return CombineLoop<LoopMin, T>;
    case ReduceOp::kMax:
      return CombineLoop<LoopMax, T>;
    case ReduceOp::kProduct:
      return CombineLoop<LoopProduct, T>;
  }
  return nullptr;
}

ReduceLoops::Combine CombineOfType(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32:
      return CombineOf<float>(op);
    case DataType::kFloat64:
      return CombineOf<double>(op);
    case DataType::kInt32:
      return CombineOf<int32_t>(op);
    case DataType::kInt64:
      return CombineOf<int64_t>(op);
    case DataType::kUint8:
      return CombineOf<uint8_t>(op);
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return nullptr;
  }
  return nullptr;
}

ReduceLoops::Widen WidenOfType(DataType type) {
  return type == DataType::kFloat16 ? WidenLoop<Float16> : WidenLoop<Bfloat16>;
}

ReduceLoops::Narrow NarrowOfType(DataType type) {
  return type == DataType::kFloat16 ? NarrowToFloat16 : NarrowToBfloat16;
}

constexpr ReduceLoops CompiledLoops(absl::string_view instructions) {
  return {instructions, CombineOfType,    WidenOfType,
          NarrowOfType, ScaleLoop<float>, ScaleLoop<double>};
}

}  // namespace
}  // namespace dp::engine
