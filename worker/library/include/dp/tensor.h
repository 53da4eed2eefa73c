#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dp/elements.h"
#include "dp/namespace.h"

namespace dp::distributed {

// An array in the memory of a GPU, as a Tensor holds one. A copy has memory of its own. Copies, and
// the end of the memory, follow the earlier work of the GPU's default stream.
class GpuValues {
 public:
  // Holds anything. Errors: as empty().
  GpuValues(int device, DataType type, size_t count);
  GpuValues(const GpuValues& other);
  GpuValues(GpuValues&& other) noexcept;
  GpuValues& operator=(GpuValues other) noexcept;
  ~GpuValues();

  int device() const { return device_; }
  operator MutableElements() { return {memory_, count_, type_}; }  // NOLINT: as of a std::vector
  operator Elements() const { return {memory_, count_, type_}; }   // NOLINT

 private:
  void* memory_ = nullptr;
  size_t count_;
  DataType type_;
  int device_;
};

// A dense array in memory of the host or of a GPU, in row-major order, which owns its elements. A
// scalar has the shape {}. As thread-safe as a std::vector.
class Tensor {
 public:
  // Without elements.
  Tensor() = default;
  // In the host's memory. Errors: kInvalidArgument `values` has not as many elements as `shape`
  // says.
  template <Element T>
  Tensor(std::vector<int64_t> shape, std::vector<T> values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    check_shape();
  }
  Tensor(std::vector<int64_t> shape, GpuValues values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    check_shape();
  }

  const std::vector<int64_t>& shape() const { return shape_; }
  DataType type() const { return elements().type; }
  size_t count() const { return elements().count; }
  // Where the elements lie: "cpu", "cuda:0", "cuda:1", ...
  std::string device() const;

  // A copy on `device`: "cpu", "cuda:1", or "cuda", the calling thread's GPU. A copy from a GPU to
  // another memory waits for the GPU's earlier work, and for the copy. Errors: as empty().
  Tensor to(const std::string& device) const;

  // The elements in the host's memory. Errors: kInvalidArgument they are of another type, or lie on
  // a GPU.
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

  // The same where the type does not matter, and as collectives take them. Kernels take those of a
  // GPU.
  MutableElements elements() {
    return std::visit([](auto& values) { return static_cast<MutableElements>(values); }, values_);
  }
  Elements elements() const {
    return std::visit([](const auto& values) { return static_cast<Elements>(values); }, values_);
  }

 private:
  void check_shape() const;
  [[noreturn]] void reject_type(DataType wanted) const;

  std::vector<int64_t> shape_ = {0};
  std::variant<std::vector<float>, std::vector<double>, std::vector<Float16>, std::vector<Bfloat16>,
               std::vector<int32_t>, std::vector<int64_t>, std::vector<uint8_t>, GpuValues>
      values_;
};

// A tensor of zeros. Errors: kInvalidArgument a size is negative, or their product is more than
// memory can have. kLimit there is no memory.
Tensor zeros(std::vector<int64_t> shape, DataType type = DataType::kFloat32);
// On a device, which Tensor::to names too. A GPU writes the zeros before the later work of its
// default stream. Errors: also kInvalidArgument the device is unknown, or there is no GPU of its
// number. kUnsupported there is no GPU at all, or the library for it is missing. kInternal the GPU
// failed.
Tensor zeros(std::vector<int64_t> shape, DataType type, const std::string& device);
// The same, but a GPU's memory holds anything.
Tensor empty(std::vector<int64_t> shape, DataType type, const std::string& device);

}  // namespace dp::distributed
