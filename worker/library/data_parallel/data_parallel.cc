#include "dp/data_parallel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/library/data_parallel/device_names.h"
#include "worker/library/data_parallel/device_threads.h"
#include "worker/library/data_parallel/replicas.h"
#include "worker/library/data_parallel/scatter_arguments.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"

namespace dp::distributed {
namespace {

using library::ErrorSource;
using library::OrThrow;

[[noreturn]] void RejectBatch(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
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
  return library::ScatterArguments(inputs, library::FindDevices(devices), dim);
}

std::vector<std::unique_ptr<ReplicableModule>> replicate(const ReplicableModule& module,
                                                         std::span<const std::string> devices) {
  const std::vector<library::Device> found = library::FindDevices(devices);
  std::vector<std::unique_ptr<ReplicableModule>> replicas(devices.size());
  library::AwaitFirst(found);
  library::DeviceThreads(found).Run("replicate", found.size(), [&](size_t i) {
    replicas[i] = library::ReplicaFor(module, found[i]);
  });
  for (size_t i = 0; i < found.size(); ++i)
    (void)library::ReplicaOn(found[i].name, replicas[i].get());  // for its error
  return replicas;
}

std::vector<Tensor> parallel_apply(std::span<ReplicableModule* const> modules,
                                   std::span<const Arguments> inputs,
                                   std::span<const std::string> devices) {
  const std::vector<library::Device> found = library::FindDevices(devices);
  CheckEqualCount("modules", modules.size(), devices.size());
  CheckEqualCount("inputs", inputs.size(), devices.size());
  for (size_t i = 0; i < found.size(); ++i)
    (void)library::ReplicaOn(found[i].name, modules[i]);  // for its error
  std::vector<Tensor> outputs(devices.size());
  library::DeviceThreads(found).Run("forward", found.size(),
                                    [&](size_t i) { outputs[i] = modules[i]->forward(inputs[i]); });
  return outputs;
}

Tensor gather(std::span<const Tensor> outputs, const std::string& device, int dim) {
  OrThrow(library::CheckDevice(device), ErrorSource::kCaller);
  const library::Device found =
      OrThrow(library::FindDevice(device), ErrorSource::kCaller, "DataParallel");
  if (dim < 0) RejectBatch(absl::StrCat("gather: dim is ", dim, "; give 0 or more"));
  return library::JoinTensors({outputs.data(), outputs.size()}, dim, found);
}

}  // namespace dp::distributed
