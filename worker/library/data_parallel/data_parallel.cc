#include "dp/data_parallel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/data_parallel/device_names.h"
#include "worker/library/data_parallel/device_threads.h"
#include "worker/library/data_parallel/replicas.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"

namespace dp::distributed {
namespace {

using library::ErrorSource;
using library::OrThrow;

[[noreturn]] void RejectBatch(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
}

// The samples along `dim` of the tensors among `inputs`, which are equally many; -1: no tensor.
int64_t SamplesOf(const Arguments& inputs, int dim) {
  int64_t samples = -1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* tensor = std::get_if<Tensor>(&inputs[i]);
    if (tensor == nullptr) continue;
    const std::vector<int64_t>& shape = tensor->shape();
    if (dim < 0 || static_cast<size_t>(dim) >= shape.size())
      RejectBatch(absl::StrCat("scatter: argument ", i, " of the shape ", library::ShapeText(shape),
                               " has no dimension ", dim,
                               "; give another dim, or the whole tensor as std::any"));
    if (samples >= 0 && shape[dim] != samples)
      RejectBatch(absl::StrCat("scatter: argument ", i, " has ", shape[dim],
                               " samples in dimension ", dim, ", and one before it ", samples,
                               "; give as many in all tensors, or a whole tensor as std::any"));
    samples = shape[dim];
  }
  return samples;
}

void CheckEqualCount(const char* what, size_t count, size_t devices) {
  if (count != devices)
    RejectBatch(absl::StrCat("parallel_apply: ", count, " ", what, " for ", devices,
                             " devices; give one for each device"));
}

library::Replicas& ReplicasIn(const std::unique_ptr<library::Replicas>& replicas) {
  if (replicas != nullptr) return *replicas;
  throw DistError(ErrorKind::kWrongState,
                  "the DataParallel has been moved from; use the one that it became");
}

}  // namespace

DataParallel::DataParallel(ReplicableModule& module, const DataParallelOptions& options)
    : replicas_(std::make_unique<library::Replicas>(module, options)) {}
DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel::~DataParallel() = default;

Tensor DataParallel::forward(const Arguments& inputs) {
  return ReplicasIn(replicas_).Forward(inputs);
}
void DataParallel::backward(const Tensor& output_gradient) {
  ReplicasIn(replicas_).Backward(output_gradient);
}
ReplicableModule& DataParallel::module() const { return ReplicasIn(replicas_).module(); }
const std::vector<std::string>& DataParallel::device_ids() const {
  return ReplicasIn(replicas_).options().device_ids;
}
const std::string& DataParallel::output_device() const {
  return ReplicasIn(replicas_).options().output_device;
}

std::vector<Arguments> scatter(const Arguments& inputs, std::span<const std::string> devices,
                               int dim) {
  OrThrow(library::CheckDevices({devices.data(), devices.size()}), ErrorSource::kCaller);
  const int64_t samples = SamplesOf(inputs, dim);
  if (samples < 0) return std::vector<Arguments>(devices.size(), inputs);
  const std::vector<int64_t> sizes = library::PartSizes(samples, devices.size());
  std::vector<Arguments> parts(sizes.size());
  for (const Argument& input : inputs) {
    const Tensor* tensor = std::get_if<Tensor>(&input);
    if (tensor == nullptr) {
      for (Arguments& part : parts) part.push_back(input);
      continue;
    }
    std::vector<Tensor> tensors = library::SplitTensor(*tensor, dim, sizes);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].emplace_back(std::move(tensors[i]));
  }
  return parts;
}

std::vector<std::unique_ptr<ReplicableModule>> replicate(const ReplicableModule& module,
                                                         std::span<const std::string> devices) {
  OrThrow(library::CheckDevices({devices.data(), devices.size()}), ErrorSource::kCaller);
  std::vector<std::unique_ptr<ReplicableModule>> replicas(devices.size());
  library::DeviceThreads({devices.begin(), devices.end()})
      .Run("replicate", devices.size(), [&](size_t i) { replicas[i] = module.replicate(); });
  return replicas;
}

std::vector<Tensor> parallel_apply(std::span<ReplicableModule* const> modules,
                                   std::span<const Arguments> inputs,
                                   std::span<const std::string> devices) {
  OrThrow(library::CheckDevices({devices.data(), devices.size()}), ErrorSource::kCaller);
  CheckEqualCount("modules", modules.size(), devices.size());
  CheckEqualCount("inputs", inputs.size(), devices.size());
  std::vector<Tensor> outputs(devices.size());
  library::DeviceThreads({devices.begin(), devices.end()})
      .Run("forward", devices.size(),
           [&](size_t i) { outputs[i] = modules[i]->forward(inputs[i]); });
  return outputs;
}

Tensor gather(std::span<const Tensor> outputs, const std::string& device, int dim) {
  OrThrow(library::CheckDevice(device), ErrorSource::kCaller);
  if (dim < 0) RejectBatch(absl::StrCat("gather: dim is ", dim, "; give 0 or more"));
  return library::JoinTensors({outputs.data(), outputs.size()}, dim);
}

}  // namespace dp::distributed
