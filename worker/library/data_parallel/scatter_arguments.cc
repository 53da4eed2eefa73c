#include "worker/library/data_parallel/scatter_arguments.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dp/errors.h"
#include "worker/library/data_parallel/tensor_parts.h"

namespace dp::library {
namespace {

using distributed::Argument;
using distributed::Arguments;
using distributed::Tensor;

[[noreturn]] void RejectArguments(const std::string& why) {
  throw distributed::DistError(distributed::ErrorKind::kInvalidArgument, why);
}

// The samples along `dim` of the tensors among `inputs`, which are equally many; -1: no tensor.
int64_t SamplesOf(const Arguments& inputs, int dim) {
  int64_t samples = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* tensor = std::get_if<Tensor>(&inputs[i]);
    if (tensor == nullptr) continue;
    const std::vector<int64_t>& shape = tensor->shape();
    if (dim < 0 || static_cast<size_t>(dim) >= shape.size())
      RejectArguments(absl::StrCat("scatter: argument ", i, " of the shape ", ShapeText(shape),
                                   " has no dimension ", dim,
                                   "; give another dim, or the whole tensor as std::any"));
    if (samples >= 0 && shape[dim] != samples)
      RejectArguments(absl::StrCat("scatter: argument ", i, " has ", shape[dim],
                                   " samples in dimension ", dim, ", and one before it ", samples,
                                   "; give as many in all tensors, or a whole tensor as std::any"));
    samples = shape[dim];
  }
  return samples;
}

}  // namespace

std::vector<Arguments> ScatterArguments(const Arguments& inputs, absl::Span<const Device> devices,
                                        int dim) {
  const int64_t samples = SamplesOf(inputs, dim);
  if (samples < 0) return std::vector<Arguments>(devices.size(), inputs);
  const std::vector<int64_t> sizes = PartSizes(samples, devices.size());
  std::vector<Arguments> parts(sizes.size());
  for (const Argument& input : inputs) {
    const Tensor* tensor = std::get_if<Tensor>(&input);
    if (tensor == nullptr) {
      for (Arguments& part : parts) part.push_back(input);
      continue;
    }
    std::vector<Tensor> tensors = SplitTensor(*tensor, dim, sizes, devices);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].emplace_back(std::move(tensors[i]));
  }
  return parts;
}

}  // namespace dp::library
