#include "worker/library/data_parallel/replicas.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "dp/errors.h"
#include "worker/library/data_parallel/device_names.h"
#include "worker/library/data_parallel/replica_gradients.h"
#include "worker/library/data_parallel/scatter_arguments.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"
#include "worker/library/gpu/cuda_of_process.h"

namespace dp::library {
namespace {

using distributed::Arguments;
using distributed::DataParallelOptions;
using distributed::DistError;
using distributed::ErrorKind;
using distributed::Parameter;
using distributed::ReplicableModule;
using distributed::Tensor;

constexpr const char* kOfDataParallel = "DataParallel";

[[noreturn]] void RejectReplica(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
}

// The only element of a vector.
Tensor ScalarOf(const Tensor& vector) {
  Tensor scalar = distributed::empty({}, vector.type(), vector.device());
  CopyBytes(PlaceOfTensor(vector), PlaceOfTensor(scalar), scalar.elements().bytes, kOfDataParallel);
  return scalar;
}

// A module on a GPU runs on all of them by default.
std::vector<std::string> DefaultDevices(ReplicableModule& module) {
  std::vector<std::string> names;
  for (const Parameter& parameter : module.parameters()) {
    const std::optional<int> gpu =
        OrThrow(GpuOfMemory(parameter.values.data), ErrorSource::kOperation, kOfDataParallel);
    if (!gpu) continue;
    for (const Device& each : OrThrow(AllGpus(*gpu), ErrorSource::kCaller, kOfDataParallel))
      names.push_back(each.name);
    break;
  }
  return names;
}

Device FindDeviceOrThrow(const std::string& name) {
  return OrThrow(FindDevice(name), ErrorSource::kCaller, kOfDataParallel);
}

}  // namespace

std::vector<Device> FindDevices(std::span<const std::string> names) {
  OrThrow(CheckDevices({names.data(), names.size()}), ErrorSource::kCaller);
  std::vector<Device> devices;
  std::vector<std::string> found;
  for (const std::string& name : names) {
    devices.push_back(FindDeviceOrThrow(name));
    found.push_back(devices.back().name);
  }
  OrThrow(CheckDevices(found), ErrorSource::kCaller);  // "cuda" may be one that is given, too
  return devices;
}

void AwaitFirst(absl::Span<const Device> devices) {
  if (devices[0].gpu) AwaitGpu(*devices[0].gpu, kOfDataParallel);
}

ReplicableModule& ReplicaOn(const std::string& device, ReplicableModule* replica) {
  if (replica != nullptr) return *replica;
  RejectReplica(
      absl::StrCat("replica on device ", device, " is null; let replicate() copy the module"));
}

// Modules that were compiled before there were GPUs have no replicate_on.
std::unique_ptr<ReplicableModule> ReplicaFor(const ReplicableModule& module, const Device& device) {
  return device.gpu ? module.replicate_on(device.name) : module.replicate();
}

Replicas::Replicas(ReplicableModule& module, const DataParallelOptions& options)
    : module_(module), options_(options) {
  if (options_.device_ids.empty()) options_.device_ids = DefaultDevices(module);
  OrThrow(CheckDataParallelOptions(options_), ErrorSource::kCaller);
  if (options_.device_ids.empty()) return;
  devices_ = FindDevices(options_.device_ids);
  for (size_t i = 0; i < devices_.size(); ++i) options_.device_ids[i] = devices_[i].name;
  output_device_ =
      options_.output_device.empty() ? devices_[0] : FindDeviceOrThrow(options_.output_device);
  options_.output_device = output_device_.name;
  CheckPlace("DataParallel: the module", module, devices_[0],
             "move the module to the first of device_ids, or give that of the module first");
  if (const std::optional<int> gpu = devices_[0].gpu) {
    first_memory_.emplace(GpuUse{OrThrow(TheCuda(), ErrorSource::kCaller), *gpu}, kOfDataParallel);
    const ChosenGpu chosen(*OrThrow(TheCuda(), ErrorSource::kCaller), *gpu, kOfDataParallel);
    if (devices_.size() > 1) (void)first_memory_->math();  // the kernels are missing now, or never
  }
  if (!IsAlone()) threads_.emplace(devices_);
}

void Replicas::SayIdleDevices(size_t parts) {
  const std::vector<std::string>& devices = options_.device_ids;
  if (said_idle_ || parts == devices.size()) return;
  said_idle_ = true;
  Log(Severity::kWarning, "devices_idle",
      {{"parts", parts},
       {"devices", devices.size()},
       {"idle", absl::StrJoin(devices.begin() + parts, devices.end(), ",")},
       {"remedy", "give a batch that has a part for each device"}});
}

std::vector<ReplicableModule*> Replicas::Replicate(size_t count) {
  copies_.clear();
  copies_.resize(count);
  AwaitFirst(devices_);
  threads_->Run("replicate", count, [this](size_t device) {
    if (device > 0) copies_[device] = ReplicaFor(module_, devices_[device]);
  });
  std::vector<ReplicableModule*> replicas = {&module_};
  for (size_t i = 1; i < count; ++i) {
    const std::string& name = devices_[i].name;
    replicas.push_back(&ReplicaOn(name, copies_[i].get()));
    if (devices_[i].gpu)
      CheckPlace(absl::StrCat("replica on device ", name), *replicas.back(), devices_[i],
                 "let replicate_on() copy it to its device");
  }
  return replicas;
}

Tensor Replicas::Forward(const Arguments& inputs) {
  replicas_.clear();
  if (IsAlone()) {
    Tensor output = module_.forward(inputs);
    replicas_ = {&module_};
    output_shape_ = output.shape();
    return output;
  }
  // Without arguments there is nothing to split, and the first device does all.
  const std::vector<Arguments> parts =
      inputs.empty() ? std::vector<Arguments>(1) : ScatterArguments(inputs, devices_, options_.dim);
  if (!inputs.empty()) SayIdleDevices(parts.size());
  std::vector<ReplicableModule*> replicas = Replicate(parts.size());
  std::vector<Tensor> outputs(parts.size());
  threads_->Run("forward", parts.size(),
                [&](size_t device) { outputs[device] = replicas[device]->forward(parts[device]); });
  Tensor output = JoinTensors(outputs, options_.dim, output_device_);
  part_shapes_.clear();
  for (const Tensor& part : outputs) part_shapes_.push_back(part.shape());
  output_shape_ = output.shape();
  replicas_ = std::move(replicas);
  return output;
}

std::vector<Tensor> Replicas::PartsOf(const Tensor& output_gradient) const {
  std::vector<int64_t> sizes;
  for (const auto& shape : part_shapes_) sizes.push_back(shape.empty() ? 1 : shape[options_.dim]);
  std::vector<Tensor> parts = SplitTensor(output_gradient, options_.dim, sizes, devices_);
  for (size_t i = 0; i < parts.size(); ++i)
    if (part_shapes_[i].empty()) parts[i] = ScalarOf(parts[i]);
  return parts;
}

void Replicas::Backward(const Tensor& output_gradient) {
  if (replicas_.empty())
    throw DistError(ErrorKind::kWrongState,
                    "DataParallel: backward has no forward before it; call forward first, and "
                    "backward once for it");
  if (output_gradient.shape() != output_shape_)
    RejectReplica(absl::StrCat("DataParallel: the gradient has the shape ",
                               ShapeText(output_gradient.shape()), ", and the output ",
                               ShapeText(output_shape_), "; give a gradient of the output"));
  const std::vector<ReplicableModule*> replicas = std::exchange(replicas_, {});
  if (IsAlone()) return module_.backward(output_gradient);
  const std::vector<Tensor> parts = PartsOf(output_gradient);
  const ReplicaGradients gradients(replicas, devices_);
  threads_->Run("backward", replicas.size(), [&](size_t device) {
    if (device > 0) gradients.Zero(device);
    replicas[device]->backward(parts[device]);
  });
  if (first_memory_) {
    threads_->Run("sum", 1, [&](size_t) { gradients.AddAll(*first_memory_); });
  } else {
    threads_->Run("sum", replicas.size(), [&](size_t device) { gradients.AddSlice(device); });
  }
  copies_.clear();
}

}  // namespace dp::library
