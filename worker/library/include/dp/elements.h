#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace dp::distributed {

// The type of an array's elements.
enum class DataType { kFloat32, kFloat64, kFloat16, kBfloat16, kInt32, kInt64, kUint8 };

// kAvg is for floats only. Integers wrap around.
enum class ReduceOp { kSum, kAvg, kMin, kMax, kProduct };

// The bytes of one element.
constexpr size_t element_size(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kUint8:
      return 1;
  }
  return 0;
}

// 16-bit floats, for memory and exchange: IEEE 754 binary16, and the upper half of a float.
// Converting from float rounds to the nearest, ties to even. Reductions add them as float.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value);
  explicit operator float() const;
};
struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;
  explicit Bfloat16(float value);
  explicit operator float() const;
};

// The element types that ranks can exchange, with their tags.
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<float> {
  static constexpr DataType kTag = DataType::kFloat32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType kTag = DataType::kFloat64;
};
template <>
struct DataTypeOf<Float16> {
  static constexpr DataType kTag = DataType::kFloat16;
};
template <>
struct DataTypeOf<Bfloat16> {
  static constexpr DataType kTag = DataType::kBfloat16;
};
template <>
struct DataTypeOf<int32_t> {
  static constexpr DataType kTag = DataType::kInt32;
};
template <>
struct DataTypeOf<int64_t> {
  static constexpr DataType kTag = DataType::kInt64;
};
template <>
struct DataTypeOf<uint8_t> {
  static constexpr DataType kTag = DataType::kUint8;
};

template <typename T>
concept Element = requires {
  DataTypeOf<std::remove_const_t<T>>::kTag;
};

// An array that std::data and std::size describe: std::vector, std::array, std::span, float[3].
template <typename Array>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<Array&>()))>;
template <typename Array>
concept ElementArray = requires(Array& array) {
  std::size(array);
  requires Element<ElementOf<Array>>;
};

// The elements of a caller's array, which an operation reads. The array outlives the operation.
struct Elements {
  template <ElementArray Array>
  Elements(const Array& array)  // NOLINT: an array is passed as it is
      : data(std::data(array)),
        count(std::size(array)),
        type(DataTypeOf<std::remove_const_t<ElementOf<const Array>>>::kTag),
        bytes(count * sizeof(ElementOf<const Array>)) {}
  // An array whose type is known only when the program runs.
  Elements(const void* data_in, size_t count_in, DataType type_in)
      : data(data_in), count(count_in), type(type_in), bytes(count_in * element_size(type_in)) {}

  const void* data;
  size_t count;
  DataType type;
  size_t bytes;
};

// The same for an operation that also writes. The operation uses the memory until it has ended.
struct MutableElements {
  template <ElementArray Array>
  requires(!std::is_const_v<ElementOf<Array>>)
      MutableElements(Array&& array)  // NOLINT: an array is passed as it is
      : data(std::data(array)),
        count(std::size(array)),
        type(DataTypeOf<ElementOf<Array>>::kTag),
        bytes(count * sizeof(ElementOf<Array>)) {}
  // An array whose type is known only when the program runs.
  MutableElements(void* data_in, size_t count_in, DataType type_in)
      : data(data_in), count(count_in), type(type_in), bytes(count_in * element_size(type_in)) {}
  operator Elements() const { return {data, count, type}; }  // NOLINT: what is written is read too

  void* data;
  size_t count;
  DataType type;
  size_t bytes;
};

}  // namespace dp::distributed
