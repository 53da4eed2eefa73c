#include "dp/tensor.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dp/errors.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"
#include "worker/library/gpu/cuda_of_process.h"
#include "worker/library/gpu/device.h"
#include "worker/library/gpu/device_name.h"
#include "worker/library/gpu/gpu_memory.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::DataType;
using distributed::DistError;
using distributed::ErrorKind;
using distributed::Tensor;

[[noreturn]] void RejectElements(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
}

std::string NameOfType(DataType type) { return std::string(engine::NameOf(TypeInEngine(type))); }

bool HasNegative(const std::vector<int64_t>& shape) {
  return std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; });
}

// The elements that `verb` makes memory for.
size_t CheckedCount(const char* verb, const std::vector<int64_t>& shape) {
  if (HasNegative(shape))
    RejectElements(
        absl::StrCat(verb, ": the shape is ", ShapeText(shape), "; give sizes of 0 or more"));
  const auto count = static_cast<size_t>(ElementsIn(shape));
  if (count > std::vector<double>().max_size())
    RejectElements(absl::StrCat(verb, ": the shape ", ShapeText(shape),
                                " has more elements than memory can have"));
  return count;
}

[[noreturn]] void RejectUnknownType(DataType type) {
  RejectElements(absl::StrCat("element type ", static_cast<int>(type), " is unknown"));
}

// The bytes that so many elements take on a GPU.
size_t CheckedBytes(DataType type, size_t count) {
  const size_t size = element_size(type);
  if (size == 0) RejectUnknownType(type);
  if (count > std::vector<double>().max_size())
    RejectElements(absl::StrCat("Tensor: ", count, " elements are more than memory can have"));
  return count * size;
}

Tensor HostTensor(std::vector<int64_t> shape, size_t count, DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return {std::move(shape), std::vector<float>(count)};
    case DataType::kFloat64:
      return {std::move(shape), std::vector<double>(count)};
    case DataType::kFloat16:
      return {std::move(shape), std::vector<distributed::Float16>(count)};
    case DataType::kBfloat16:
      return {std::move(shape), std::vector<distributed::Bfloat16>(count)};
    case DataType::kInt32:
      return {std::move(shape), std::vector<int32_t>(count)};
    case DataType::kInt64:
      return {std::move(shape), std::vector<int64_t>(count)};
    case DataType::kUint8:
      return {std::move(shape), std::vector<uint8_t>(count)};
  }
  RejectUnknownType(type);
}

Tensor MadeTensor(const char* verb, std::vector<int64_t> shape, DataType type,
                  const std::string& device) {
  const Device where = OrThrow(FindDevice(device), ErrorSource::kCaller, verb);
  const size_t count = CheckedCount(verb, shape);
  if (where.gpu) return {std::move(shape), distributed::GpuValues(*where.gpu, type, count)};
  const std::string text = ShapeText(shape);
  try {
    return HostTensor(std::move(shape), count, type);
  } catch (const std::bad_alloc&) {
    throw DistError(ErrorKind::kLimit,
                    absl::StrCat(verb, ": no memory for the ", count * element_size(type),
                                 " bytes of the shape ", text,
                                 "; give a smaller shape, or raise the process's memory limit"));
  }
}

constexpr const char* kOfTensor = "Tensor";

}  // namespace

MemoryPlace PlaceOfTensor(const Tensor& tensor) {
  auto* const begin = static_cast<uint8_t*>(const_cast<void*>(tensor.elements().data));
  return {begin, ParseDevice(tensor.device())->number};
}

}  // namespace dp::library

namespace dp::distributed {

// A tensor of the host has the layout that it had before there were GPUs.
static_assert(sizeof(GpuValues) <= sizeof(std::vector<float>));

using library::CopyBytes;
using library::ErrorSource;
using library::OrThrow;

GpuValues::GpuValues(int device, DataType type, size_t count)
    : count_(count), type_(type), device_(device) {
  const size_t bytes = library::CheckedBytes(type, count);
  if (bytes == 0) return;
  library::GpuUse use{.device = device};
  use.cuda = OrThrow(library::TheCuda(), ErrorSource::kOperation, library::kOfTensor);
  const library::ChosenGpu chosen(*use.cuda, device, library::kOfTensor);
  memory_ =
      OrThrow(library::GpuMemory::Allocate(use, bytes), ErrorSource::kOperation, library::kOfTensor)
          .Release();
}

GpuValues::GpuValues(const GpuValues& other) : GpuValues(other.device_, other.type_, other.count_) {
  CopyBytes({static_cast<uint8_t*>(other.memory_), device_},
            {static_cast<uint8_t*>(memory_), device_}, count_ * element_size(type_),
            library::kOfTensor);
}

GpuValues::GpuValues(GpuValues&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      count_(std::exchange(other.count_, 0)),
      type_(other.type_),
      device_(other.device_) {}

GpuValues& GpuValues::operator=(GpuValues other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(count_, other.count_);
  std::swap(type_, other.type_);
  std::swap(device_, other.device_);
  return *this;
}

GpuValues::~GpuValues() {
  if (memory_ == nullptr) return;
  if (const auto cuda = library::TheCuda(); cuda.ok())
    (*cuda)->Free(static_cast<uint8_t*>(memory_));
}

std::string Tensor::device() const {
  const auto* gpu = std::get_if<GpuValues>(&values_);
  return gpu == nullptr ? "cpu" : absl::StrCat("cuda:", gpu->device());
}

Tensor Tensor::to(const std::string& device) const {
  Tensor copy = library::MadeTensor("to", shape_, type(), device);
  CopyBytes(library::PlaceOfTensor(*this), library::PlaceOfTensor(copy), elements().bytes,
            library::kOfTensor);
  return copy;
}

void Tensor::check_shape() const {
  const int64_t wanted = library::ElementsIn(shape_);
  if (library::HasNegative(shape_) || wanted != static_cast<int64_t>(count()))
    library::RejectElements(absl::StrCat("Tensor: ", count(), " values do not fill the shape ",
                                         library::ShapeText(shape_), "; give as many as it has"));
}

void Tensor::reject_type(DataType wanted) const {
  if (std::holds_alternative<GpuValues>(values_))
    library::RejectElements(absl::StrCat("Tensor: the elements lie on ", device(),
                                         ", where the host cannot read them; call values ",
                                         "of to(\"cpu\"), or give elements() to a kernel"));
  library::RejectElements(absl::StrCat("Tensor: the elements are ", library::NameOfType(type()),
                                       ", not ", library::NameOfType(wanted),
                                       "; ask for values of their type"));
}

Tensor zeros(std::vector<int64_t> shape, DataType type) {
  return library::MadeTensor("zeros", std::move(shape), type, "cpu");
}

Tensor zeros(std::vector<int64_t> shape, DataType type, const std::string& device) {
  Tensor made = library::MadeTensor("zeros", std::move(shape), type, device);
  const library::MemoryPlace place = library::PlaceOfTensor(made);
  if (!place.gpu || made.count() == 0) return made;
  engine::CudaApi* const cuda =
      OrThrow(library::TheCuda(), ErrorSource::kOperation, library::kOfTensor);
  const library::ChosenGpu chosen(*cuda, *place.gpu, library::kOfTensor);
  OrThrow(cuda->ZeroOnStream(place.begin, made.elements().bytes, nullptr), ErrorSource::kOperation,
          library::kOfTensor);
  return made;
}

Tensor empty(std::vector<int64_t> shape, DataType type, const std::string& device) {
  return library::MadeTensor("empty", std::move(shape), type, device);
}

}  // namespace dp::distributed
