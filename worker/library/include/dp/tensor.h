#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "dp/elements.h"
#include "dp/namespace.h"

namespace dp::distributed {

// A dense array in memory of the host, in row-major order, which owns its elements. A scalar has
// the shape {}. As thread-safe as a std::vector.
class Tensor {
 public:
  // Without elements.
  Tensor() = default;
  // Errors: kInvalidArgument `values` has not as many elements as `shape` says.
  template <Element T>
  Tensor(std::vector<int64_t> shape, std::vector<T> values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    check_shape();
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  DataType type() const { return elements().type; }
  size_t count() const { return elements().count; }

  // The elements. Errors: kInvalidArgument they are of another type.
  template <Element T>
  std::span<T> values() {
    if (auto* values = std::get_if<std::vector<T>>(&values_)) return *values;
    reject_type(DataTypeOf<T>::kTag);
  }
  template <Element T>
  std::span<const T> values() const {
    if (const auto* values = std::get_if<std::vector<T>>(&values_)) return *values;
    reject_type(DataTypeOf<T>::kTag);
  }
  // The same where the type does not matter, and as collectives take them.
  MutableElements elements() {
    return std::visit([](auto& values) { return MutableElements(values); }, values_);
  }
  Elements elements() const {
    return std::visit([](const auto& values) { return Elements(values); }, values_);
  }

 private:
  void check_shape() const;
  [[noreturn]] void reject_type(DataType wanted) const;

  std::vector<int64_t> shape_ = {0};
  std::variant<std::vector<float>, std::vector<double>, std::vector<Float16>, std::vector<Bfloat16>,
               std::vector<int32_t>, std::vector<int64_t>, std::vector<uint8_t>>
      values_;
};

// A tensor of zeros. Errors: kInvalidArgument a size is negative, or their product is more than
// memory can have. kLimit there is no memory.
Tensor zeros(std::vector<int64_t> shape, DataType type = DataType::kFloat32);

}  // namespace dp::distributed
