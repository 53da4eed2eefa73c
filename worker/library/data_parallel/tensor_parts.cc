#include "worker/library/data_parallel/tensor_parts.h"

#include <algorithm>
#include <limits>
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

// Row-major: a tensor is `rows` runs of `row_bytes` bytes, one behind the other, and every run has
// all of dimension `dim`.
struct Rows {
  Rows(const Tensor& tensor, size_t dim)
      : rows(ElementsIn(absl::MakeConstSpan(tensor.shape()).first(dim))),
        row_bytes(rows == 0 ? 0 : tensor.elements().bytes / rows) {}
  size_t rows;
  size_t row_bytes;
};

// Copies `rows` runs of `bytes` bytes, which begin `from_step` and `to_step` bytes apart.
void CopyRows(MemoryPlace from, size_t from_step, MemoryPlace to, size_t to_step, size_t bytes,
              size_t rows) {
  if (bytes == 0) return;
  if (from_step == bytes && to_step == bytes) bytes *= std::exchange(rows, rows > 0 ? 1 : 0);
  for (; rows > 0; --rows, from.begin += from_step, to.begin += to_step)
    CopyBytes(from, to, bytes, "DataParallel");
}

bool IsOn(const Tensor& tensor, const Device& device) {
  return PlaceOfTensor(tensor).gpu == device.gpu;
}

// The part of `size` samples along `dim` that begins `offset` bytes into each row.
Tensor PartOf(const Tensor& whole, size_t dim, size_t offset, int64_t size, const Device& device) {
  const Rows from(whole, dim);
  // Between memories, one copy takes less time than one for each row.
  if (from.rows > 1 && !IsOn(whole, device))
    return PartOf(whole, dim, offset, size, {whole.device(), PlaceOfTensor(whole).gpu})
        .to(device.name);
  Shape shape = whole.shape();
  shape[dim] = size;
  Tensor part = distributed::empty(shape, whole.type(), device.name);
  const Rows to(part, dim);
  MemoryPlace begin = PlaceOfTensor(whole);
  begin.begin += offset;
  CopyRows(begin, from.row_bytes, PlaceOfTensor(part), to.row_bytes, to.row_bytes, to.rows);
  return part;
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

int64_t ElementsIn(absl::Span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t count, int64_t size) {
    int64_t product = 0;
    return __builtin_mul_overflow(count, size, &product) ? std::numeric_limits<int64_t>::max()
                                                         : product;
  });
}

std::vector<Tensor> SplitTensor(const Tensor& whole, size_t dim, absl::Span<const int64_t> sizes,
                                absl::Span<const Device> devices) {
  std::vector<Tensor> parts;
  size_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back(PartOf(whole, dim, offset, sizes[i], devices[i]));
    offset += Rows(parts.back(), dim).row_bytes;
  }
  return parts;
}

Tensor JoinTensors(absl::Span<const Tensor> parts, size_t dim, const Device& device) {
  if (parts.empty()) RejectTensor("gather: there are no outputs; give one at least");
  Tensor whole = distributed::empty(JoinedShape(parts, dim), parts[0].type(), device.name);
  const Rows to(whole, dim);
  MemoryPlace next = PlaceOfTensor(whole);
  for (const Tensor& part : parts) {
    const Rows from(part, part.shape().empty() ? 0 : dim);
    const bool moves = from.rows > 1 && !IsOn(part, device);  // as a whole, as PartOf
    const Tensor here = moves ? part.to(device.name) : Tensor();
    CopyRows(PlaceOfTensor(moves ? here : part), from.row_bytes, next, to.row_bytes, from.row_bytes,
             from.rows);
    next.begin += from.row_bytes;
  }
  return whole;
}

}  // namespace dp::library
