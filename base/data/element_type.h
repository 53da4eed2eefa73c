#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dp::data {

// The type of the numbers in a file. A truth value of NumPy is read as kInt8, 0 or 1.
enum class ElementType { kUint8, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64 };

// Bytes of one element.
inline int64_t SizeOf(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
      return 1;
    case ElementType::kInt16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kInt64:
    case ElementType::kFloat64:
      return 8;
  }
  return 1;
}

inline bool IsFloat(ElementType type) {
  return type == ElementType::kFloat32 || type == ElementType::kFloat64;
}

// NumPy's name.
inline absl::string_view NameOf(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
  }
  return "";
}

}  // namespace dp::data
