#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace dp::engine::cuda {

// The element type of the tensors of a library's plan. Sums are floats whatever the type.
enum class ElementType { kFloat32, kBfloat16 };

constexpr int64_t ByteSize(ElementType type) { return type == ElementType::kFloat32 ? 4 : 2; }
constexpr absl::string_view Name(ElementType type) {
  return type == ElementType::kFloat32 ? "float32" : "bfloat16";
}

}  // namespace dp::engine::cuda
