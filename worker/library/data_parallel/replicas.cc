#include "worker/library/data_parallel/replicas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "dp/errors.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/library/data_parallel/device_names.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::Arguments;
using distributed::DataParallelOptions;
using distributed::DistError;
using distributed::ErrorKind;
using distributed::MutableElements;
using distributed::Parameter;
using distributed::ReplicableModule;
using distributed::Tensor;

[[noreturn]] void RejectReplica(const std::string& why) {
  throw DistError(ErrorKind::kInvalidArgument, why);
}

std::string TextOf(const Parameter& parameter) {
  return absl::StrCat("'", parameter.name, "' of ",
                      std::string(engine::NameOf(TypeInEngine(parameter.values.type))), " ",
                      ShapeText(parameter.shape));
}

bool AreAlike(const Parameter& a, const Parameter& b) {
  return a.name == b.name && a.shape == b.shape && a.values.type == b.values.type &&
         a.values.count == b.values.count;
}

void CheckReplica(const std::string& device, const std::vector<Parameter>& module,
                  const std::vector<Parameter>& replica) {
  if (module.size() != replica.size())
    RejectReplica(absl::StrCat("replica on device ", device, " has ", replica.size(),
                               " parameters, and the module ", module.size(),
                               "; let replicate() copy the module"));
  for (size_t p = 0; p < module.size(); ++p) {
    if (!AreAlike(module[p], replica[p]))
      RejectReplica(absl::StrCat("replica on device ", device, ": parameter ", p, " is ",
                                 TextOf(replica[p]), ", and that of the module is ",
                                 TextOf(module[p]), "; let replicate() copy the module"));
  }
}

std::vector<MutableElements> GradientsOf(const std::string& device,
                                         const std::vector<Parameter>& parameters) {
  std::vector<MutableElements> gradients;
  for (const Parameter& parameter : parameters) {
    if (!parameter.gradient || parameter.gradient->bytes != parameter.values.bytes ||
        parameter.gradient->type != parameter.values.type)
      RejectReplica(absl::StrCat("replica on device ", device, ": parameter ", TextOf(parameter),
                                 " has no gradient of this type and size; give each parameter one, "
                                 "and make values that nothing learns buffers"));
    gradients.push_back(*parameter.gradient);
  }
  return gradients;
}

// By module and parameter.
std::vector<std::vector<MutableElements>> GradientsOf(absl::Span<ReplicableModule* const> modules,
                                                      absl::Span<const std::string> devices) {
  const std::vector<Parameter> first = modules[0]->parameters();
  std::vector<std::vector<MutableElements>> gradients;
  for (size_t i = 0; i < modules.size(); ++i) {
    const std::vector<Parameter> parameters = modules[i]->parameters();
    CheckReplica(devices[i], first, parameters);
    gradients.push_back(GradientsOf(devices[i], parameters));
  }
  return gradients;
}

// The gradients of a replica are set to zero, which must not be those of the module.
void CheckOwnGradients(const std::vector<std::vector<MutableElements>>& gradients,
                       absl::Span<const std::string> devices) {
  for (size_t i = 1; i < gradients.size(); ++i)
    for (size_t p = 0; p < gradients[i].size(); ++p)
      if (gradients[i][p].bytes > 0 && gradients[i][p].data == gradients[0][p].data)
        RejectReplica(absl::StrCat("replica on device ", devices[i], ": parameter ", p,
                                   " has its gradient in the module's memory; let replicate() "
                                   "give each copy its own"));
}

void SetToZero(const std::vector<MutableElements>& gradients) {
  for (const MutableElements& gradient : gradients)
    if (gradient.bytes > 0) std::memset(gradient.data, 0, gradient.bytes);
}

// Adds the gradients of all devices into those of the first, in the slices of one device.
void AddSlices(const std::vector<std::vector<MutableElements>>& gradients, size_t device) {
  for (size_t p = 0; p < gradients[0].size(); ++p) {
    const MutableElements& sum = gradients[0][p];
    const engine::Slice slice =
        engine::SliceOf(sum.count, static_cast<int>(device), static_cast<int>(gradients.size()));
    const size_t begin = slice.begin * element_size(sum.type);
    std::vector<const void*> inputs;
    for (const auto& each : gradients)
      inputs.push_back(static_cast<const char*>(each[p].data) + begin);
    engine::ReduceInOrder(inputs, TypeInEngine(sum.type), slice.count, engine::ReduceOp::kSum,
                          static_cast<char*>(sum.data) + begin);
  }
}

ReplicableModule* NotNull(const std::string& device, ReplicableModule* replica) {
  if (replica != nullptr) return replica;
  RejectReplica(
      absl::StrCat("replica on device ", device, " is null; let replicate() copy the module"));
}

// The only element of a vector.
Tensor ScalarOf(const Tensor& vector) {
  Tensor scalar = distributed::zeros({}, vector.type());
  std::memcpy(scalar.elements().data, vector.elements().data, scalar.elements().bytes);
  return scalar;
}

DataParallelOptions Checked(DataParallelOptions options) {
  OrThrow(CheckDataParallelOptions(options), ErrorSource::kCaller);
  if (options.output_device.empty() && !options.device_ids.empty())
    options.output_device = options.device_ids[0];
  return options;
}

}  // namespace

Replicas::Replicas(ReplicableModule& module, const DataParallelOptions& options)
    : module_(module), options_(Checked(options)) {
  if (!IsAlone()) threads_.emplace(options_.device_ids);
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
  threads_->Run("replicate", count, [this](size_t device) {
    if (device > 0) copies_[device] = std::as_const(module_).replicate();
  });
  std::vector<ReplicableModule*> replicas = {&module_};
  for (size_t device = 1; device < count; ++device)
    replicas.push_back(NotNull(options_.device_ids[device], copies_[device].get()));
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
      inputs.empty() ? std::vector<Arguments>(1)
                     : distributed::scatter(inputs, options_.device_ids, options_.dim);
  if (!inputs.empty()) SayIdleDevices(parts.size());
  std::vector<ReplicableModule*> replicas = Replicate(parts.size());
  std::vector<Tensor> outputs(parts.size());
  threads_->Run("forward", parts.size(),
                [&](size_t device) { outputs[device] = replicas[device]->forward(parts[device]); });
  Tensor output = JoinTensors(outputs, options_.dim);
  part_shapes_.clear();
  for (const Tensor& part : outputs) part_shapes_.push_back(part.shape());
  output_shape_ = output.shape();
  replicas_ = std::move(replicas);
  return output;
}

std::vector<Tensor> Replicas::PartsOf(const Tensor& output_gradient) const {
  std::vector<int64_t> sizes;
  for (const auto& shape : part_shapes_) sizes.push_back(shape.empty() ? 1 : shape[options_.dim]);
  std::vector<Tensor> parts = SplitTensor(output_gradient, options_.dim, sizes);
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
  const auto gradients = GradientsOf(replicas, options_.device_ids);
  CheckOwnGradients(gradients, options_.device_ids);
  threads_->Run("backward", replicas.size(), [&](size_t device) {
    if (device > 0) SetToZero(gradients[device]);
    replicas[device]->backward(parts[device]);
  });
  threads_->Run("sum", replicas.size(), [&](size_t device) { AddSlices(gradients, device); });
  copies_.clear();
}

}  // namespace dp::library
