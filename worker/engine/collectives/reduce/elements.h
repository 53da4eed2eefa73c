#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp::engine {

// The types of elements that groups reduce. The numbers are part of what ranks tell each other.
enum class DataType : uint8_t {
  kFloat32 = 1,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt32,
  kInt64,
  kUint8,
};

// The bits of a 16-bit float (half_floats.h).
struct Float16 {
  uint16_t bits = 0;
};
struct Bfloat16 {
  uint16_t bits = 0;
};

// In bytes.
size_t SizeOf(DataType type);
// As torch names it: "float32".
absl::string_view NameOf(DataType type);
bool IsFloat(DataType type);
// Whether it is a float of 16 bits.
bool IsHalf(DataType type);

template <typename T>
constexpr DataType DataTypeOf() {
  if constexpr (std::is_same_v<T, float>) return DataType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DataType::kFloat64;
  if constexpr (std::is_same_v<T, Float16>) return DataType::kFloat16;
  if constexpr (std::is_same_v<T, Bfloat16>) return DataType::kBfloat16;
  if constexpr (std::is_same_v<T, int32_t>) return DataType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DataType::kInt64;
  if constexpr (std::is_same_v<T, uint8_t>) return DataType::kUint8;
}

// Memory that holds elements of one type, to be read. Does not own it.
struct ConstElements {
  ConstElements(DataType type_in, absl::Span<const uint8_t> bytes_in)
      : type(type_in), bytes(bytes_in) {}
  template <typename T>
  ConstElements(absl::Span<T> values)  // NOLINT: a span of elements is ConstElements
      : ConstElements(
            DataTypeOf<std::remove_const_t<T>>(),
            {reinterpret_cast<const uint8_t*>(values.data()), sizeof(T) * values.size()}) {}

  size_t count() const { return bytes.size() / SizeOf(type); }

  DataType type;
  absl::Span<const uint8_t> bytes;
};

// The same, to be written too.
struct Elements {
  Elements(DataType type_in, absl::Span<uint8_t> bytes_in) : type(type_in), bytes(bytes_in) {}
  template <typename T>
  Elements(absl::Span<T> values)  // NOLINT: a span of elements is Elements
      : Elements(DataTypeOf<T>(),
                 {reinterpret_cast<uint8_t*>(values.data()), sizeof(T) * values.size()}) {}

  operator ConstElements() const { return {type, bytes}; }  // NOLINT: what may be written is read
  size_t count() const { return bytes.size() / SizeOf(type); }

  DataType type;
  absl::Span<uint8_t> bytes;
};

}  // namespace dp::engine
