#include "worker/engine/collectives/reduce/convert.h"

#include <type_traits>

#include "base/check.h"
#include "worker/engine/collectives/reduce/half_floats.h"

namespace dp::engine {
namespace {

// 16-bit floats convert by way of float32. From float64 this rounds twice.
template <typename To, typename From>
DP_ALWAYS_INLINE To Converted(From value) {
  constexpr bool kFromHalf = std::is_same_v<From, Float16> || std::is_same_v<From, Bfloat16>;
  if constexpr (kFromHalf && !std::is_same_v<To, From>) {
    return Converted<To>(ToFloat(value));
  } else if constexpr (std::is_same_v<To, Float16> && !std::is_same_v<To, From>) {
    return ToFloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, Bfloat16> && !std::is_same_v<To, From>) {
    return ToBfloat16(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Calls `then` with a value of the type.
template <typename Then>
void WithFloat(DataType type, const Then& then) {
  switch (type) {
    case DataType::kFloat32:
      return then(float{});
    case DataType::kFloat64:
      return then(double{});
    case DataType::kFloat16:
      return then(Float16{});
    case DataType::kBfloat16:
      return then(Bfloat16{});
    default:
      DP_CHECK(IsFloat(type));
  }
}

}  // namespace

void Convert(ConstElements from, Elements to) {
  DP_CHECK(from.count() == to.count());
  WithFloat(from.type, [&]<typename From>(From) {
    WithFloat(to.type, [&]<typename To>(To) {
      const auto* in = reinterpret_cast<const From*>(from.bytes.data());
      auto* out = reinterpret_cast<To*>(to.bytes.data());
      const size_t count = from.count();
#pragma omp simd
      for (size_t i = 0; i < count; ++i) out[i] = Converted<To>(in[i]);
    });
  });
}

}  // namespace dp::engine
