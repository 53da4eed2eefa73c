#include "worker/library/data_parallel/tensor_parts.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dp/errors.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::Tensor;
using Shape = std::vector<int64_t>;

[[noreturn]] void RejectTensor(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
}

// The greatest number stands for all that are greater.
int64_t ElementsIn(Shape::const_iterator begin, Shape::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, [](int64_t count, int64_t size) {
    int64_t product = 0;
    return __builtin_mul_overflow(count, size, &product) ? std::numeric_limits<int64_t>::max()
                                                         : product;
  });
}

// Row-major: a tensor is `rows` runs of `row_bytes` bytes, one behind the other, and every run has
// all of dimension `dim`.
struct Rows {
  Rows(const Tensor& tensor, size_t dim)
      : rows(ElementsIn(tensor.shape().begin(), tensor.shape().begin() + dim)),
        row_bytes(rows == 0 ? 0 : tensor.elements().bytes / rows) {}
  size_t rows;
  size_t row_bytes;
};

// Copies `part` to or from its place in `whole`: each row of it stands at `offset` of a row there.
template <typename Copy>
void ForRows(const Rows& whole, const Rows& part, size_t offset, const Copy& copy) {
  if (part.row_bytes == 0) return;
  for (size_t row = 0; row < part.rows; ++row)
    copy(row * whole.row_bytes + offset, row * part.row_bytes, part.row_bytes);
}

// The shape of one sample of a part; a scalar is a sample by itself.
Shape AsSamples(const Tensor& part) { return part.shape().empty() ? Shape{1} : part.shape(); }

Shape JoinedShape(absl::Span<const Tensor> parts, size_t dim) {
  Shape joined = AsSamples(parts[0]);
  if (dim >= joined.size())
    RejectTensor(absl::StrCat("gather: an output of the shape ", ShapeText(parts[0].shape()),
                              " has no dimension ", dim, "; give another dim"));
  joined[dim] = 0;
  for (const Tensor& part : parts) {
    Shape shape = AsSamples(part);
    const int64_t samples = dim < shape.size() ? std::exchange(shape[dim], 0) : 0;
    Shape others = joined;
    others[dim] = 0;
    if (shape != others || part.type() != parts[0].type())
      RejectTensor(absl::StrCat(
          "gather: outputs of ", std::string(engine::NameOf(TypeInEngine(parts[0].type()))), " ",
          ShapeText(parts[0].shape()), " and ",
          std::string(engine::NameOf(TypeInEngine(part.type()))), " ", ShapeText(part.shape()),
          " cannot be joined along dimension ", dim, "; they may differ there only"));
    if (__builtin_add_overflow(joined[dim], samples, &joined[dim]))
      throw DistError(ErrorKind::kLimit,
                      absl::StrCat("gather: the sum of the outputs' sizes along dimension ", dim,
                                   " is more than an int64; give smaller outputs"));
  }
  return joined;
}

Tensor ZerosOf(Shape shape, size_t count, distributed::DataType type) {
  switch (type) {
    case distributed::DataType::kFloat32:
      return {std::move(shape), std::vector<float>(count)};
    case distributed::DataType::kFloat64:
      return {std::move(shape), std::vector<double>(count)};
    case distributed::DataType::kFloat16:
      return {std::move(shape), std::vector<distributed::Float16>(count)};
    case distributed::DataType::kBfloat16:
      return {std::move(shape), std::vector<distributed::Bfloat16>(count)};
    case distributed::DataType::kInt32:
      return {std::move(shape), std::vector<int32_t>(count)};
    case distributed::DataType::kInt64:
      return {std::move(shape), std::vector<int64_t>(count)};
    case distributed::DataType::kUint8:
      return {std::move(shape), std::vector<uint8_t>(count)};
  }
  RejectTensor(absl::StrCat("element type ", static_cast<int>(type), " is unknown"));
}

}  // namespace

std::vector<int64_t> PartSizes(int64_t samples, size_t devices) {
  const int64_t count = static_cast<int64_t>(devices);
  const int64_t size = std::max<int64_t>(samples / count + (samples % count > 0 ? 1 : 0), 1);
  std::vector<int64_t> sizes;
  for (int64_t left = samples; left > 0; left -= sizes.back())
    sizes.push_back(std::min(size, left));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::vector<Tensor> SplitTensor(const Tensor& whole, size_t dim, absl::Span<const int64_t> sizes) {
  std::vector<Tensor> parts;
  const Rows from(whole, dim);
  const auto* bytes = static_cast<const char*>(whole.elements().data);
  size_t offset = 0;
  for (const int64_t size : sizes) {
    Shape shape = whole.shape();
    shape[dim] = size;
    Tensor& part = parts.emplace_back(distributed::zeros(shape, whole.type()));
    auto* out = static_cast<char*>(part.elements().data);
    const Rows to(part, dim);
    ForRows(from, to, offset, [&](size_t in_whole, size_t in_part, size_t count) {
      std::memcpy(out + in_part, bytes + in_whole, count);
    });
    offset += to.row_bytes;
  }
  return parts;
}

Tensor JoinTensors(absl::Span<const Tensor> parts, size_t dim) {
  if (parts.empty()) RejectTensor("gather: there are no outputs; give one at least");
  Tensor whole = distributed::zeros(JoinedShape(parts, dim), parts[0].type());
  auto* bytes = static_cast<char*>(whole.elements().data);
  const Rows to(whole, dim);
  size_t offset = 0;
  for (const Tensor& part : parts) {
    const Rows from = part.shape().empty() ? Rows(part, 0) : Rows(part, dim);
    const auto* in = static_cast<const char*>(part.elements().data);
    ForRows(to, from, offset, [&](size_t in_whole, size_t in_part, size_t count) {
      std::memcpy(bytes + in_whole, in + in_part, count);
    });
    offset += from.row_bytes;
  }
  return whole;
}

}  // namespace dp::library

namespace dp::distributed {

void Tensor::check_shape() const {
  const bool negative = std::any_of(shape_.begin(), shape_.end(), [](int64_t d) { return d < 0; });
  const int64_t wanted = library::ElementsIn(shape_.begin(), shape_.end());
  if (negative || wanted != static_cast<int64_t>(count()))
    library::RejectTensor(absl::StrCat("Tensor: ", count(), " values do not fill the shape ",
                                       library::ShapeText(shape_), "; give as many as it has"));
}

void Tensor::reject_type(DataType wanted) const {
  const auto name = [](DataType type) {
    return std::string(engine::NameOf(library::TypeInEngine(type)));
  };
  library::RejectTensor(absl::StrCat("Tensor: the elements are ", name(type()), ", not ",
                                     name(wanted), "; ask for values of their type"));
}

Tensor zeros(std::vector<int64_t> shape, DataType type) {
  const bool negative = std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; });
  if (negative)
    library::RejectTensor(absl::StrCat("zeros: the shape is ", library::ShapeText(shape),
                                       "; give sizes of 0 or more"));
  const auto count = static_cast<size_t>(library::ElementsIn(shape.begin(), shape.end()));
  if (count > std::vector<double>().max_size())
    library::RejectTensor(absl::StrCat("zeros: the shape ", library::ShapeText(shape),
                                       " has more elements than memory can have"));
  const std::string text = library::ShapeText(shape);
  try {
    return library::ZerosOf(std::move(shape), count, type);
  } catch (const std::bad_alloc&) {
    throw DistError(ErrorKind::kLimit,
                    absl::StrCat("zeros: no memory for the ", count * element_size(type),
                                 " bytes of the shape ", text,
                                 "; give a smaller shape, or raise the process's memory limit"));
  }
}

}  // namespace dp::distributed
