#include "worker/library/data_parallel/replica_gradients.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "dp/errors.h"
#include "worker/engine/collectives/reduce/ordered_reduce.h"
#include "worker/library/data_parallel/tensor_parts.h"
#include "worker/library/dist_error.h"
#include "worker/library/gpu/cuda_of_process.h"
#include "worker/library/gpu/gpu_memory.h"
#include "worker/library/in_engine.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;
using distributed::MutableElements;
using distributed::Parameter;
using distributed::ReplicableModule;

// The first GPU has room for so many bytes of each other GPU's gradients.
constexpr size_t kPieceBytes = size_t{4} << 20;

[[noreturn]] void RejectParameters(const std::string& why) {
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
    RejectParameters(absl::StrCat("replica on device ", device, " has ", replica.size(),
                                  " parameters, and the module ", module.size(),
                                  "; let replicate() copy the module"));
  for (size_t p = 0; p < module.size(); ++p) {
    if (!AreAlike(module[p], replica[p]))
      RejectParameters(absl::StrCat("replica on device ", device, ": parameter ", p, " is ",
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
      RejectParameters(
          absl::StrCat("replica on device ", device, ": parameter ", TextOf(parameter),
                       " has no gradient of this type and size; give each parameter one, "
                       "and make values that nothing learns buffers"));
    gradients.push_back(*parameter.gradient);
  }
  return gradients;
}

std::string PlaceText(std::optional<int> gpu) {
  return gpu ? absl::StrCat("on cuda:", *gpu) : "in the host's memory";
}

}  // namespace

void CheckPlace(const std::string& who, ReplicableModule& module, const Device& device,
                const std::string& remedy) {
  std::optional<ChosenGpu> chosen;  // has the memory that CUDA manages
  if (device.gpu) chosen.emplace(*OrThrow(TheCuda(), ErrorSource::kOperation), *device.gpu, who);
  const auto check = [&](const char* what, const Parameter& parameter,
                         const MutableElements& memory) {
    if (memory.bytes == 0) return;
    const std::optional<int> gpu = OrThrow(GpuOfMemory(memory.data), ErrorSource::kOperation, who);
    if (gpu == device.gpu) return;
    RejectParameters(absl::StrCat(who, ": ", what, " '", parameter.name, "' lies ", PlaceText(gpu),
                                  ", and the device is ", device.name, "; ", remedy));
  };
  for (const Parameter& parameter : module.parameters()) {
    check("parameter", parameter, parameter.values);
    if (parameter.gradient) check("the gradient of parameter", parameter, *parameter.gradient);
  }
}

ReplicaGradients::ReplicaGradients(absl::Span<ReplicableModule* const> replicas,
                                   absl::Span<const Device> devices)
    : on_gpus_(devices[0].gpu.has_value()) {
  const std::vector<Parameter> first = replicas[0]->parameters();
  for (size_t i = 0; i < replicas.size(); ++i) {
    const std::vector<Parameter> parameters = replicas[i]->parameters();
    CheckReplica(devices[i].name, first, parameters);
    gradients_.push_back(GradientsOf(devices[i].name, parameters));
  }
  CheckOwn(devices);
}

// The gradients of a replica are set to zero, which must not be those of the module.
void ReplicaGradients::CheckOwn(absl::Span<const Device> devices) const {
  for (size_t i = 1; i < gradients_.size(); ++i)
    for (size_t p = 0; p < gradients_[i].size(); ++p)
      if (gradients_[i][p].bytes > 0 && gradients_[i][p].data == gradients_[0][p].data)
        RejectParameters(absl::StrCat("replica on device ", devices[i].name, ": parameter ", p,
                                      " has its gradient in the module's memory; let replicate() "
                                      "give each copy its own"));
}

void ReplicaGradients::Zero(size_t replica) const {
  engine::CudaApi* const cuda = on_gpus_ ? OrThrow(TheCuda(), ErrorSource::kOperation) : nullptr;
  for (const MutableElements& gradient : gradients_[replica]) {
    if (gradient.bytes == 0) continue;
    if (cuda == nullptr) {
      std::memset(gradient.data, 0, gradient.bytes);
      continue;
    }
    OrThrow(cuda->ZeroOnStream(static_cast<uint8_t*>(gradient.data), gradient.bytes, nullptr),
            ErrorSource::kOperation);
  }
  if (cuda != nullptr) OrThrow(cuda->AwaitDevice(), ErrorSource::kOperation);
}

void ReplicaGradients::AddSlice(size_t replica) const {
  for (size_t p = 0; p < gradients_[0].size(); ++p) {
    const MutableElements& sum = gradients_[0][p];
    const engine::Slice slice =
        engine::SliceOf(sum.count, static_cast<int>(replica), static_cast<int>(gradients_.size()));
    const size_t begin = slice.begin * element_size(sum.type);
    std::vector<const void*> inputs;
    for (const auto& each : gradients_)
      inputs.push_back(static_cast<const char*>(each[p].data) + begin);
    engine::ReduceInOrder(inputs, TypeInEngine(sum.type), slice.count, engine::ReduceOp::kSum,
                          static_cast<char*>(sum.data) + begin);
  }
}

void ReplicaGradients::AddAll(GroupMemory& memory) const {
  const size_t others = gradients_.size() - 1;
  if (others == 0) return;
  size_t piece = 0;
  for (const MutableElements& sum : gradients_[0]) piece = std::max(piece, sum.bytes);
  piece = (std::min(piece, kPieceBytes) + 15) / 16 * 16;
  const BorrowedMemory copies = memory.Borrow(others * piece);
  for (size_t p = 0; p < gradients_[0].size(); ++p) {
    const MutableElements& sum = gradients_[0][p];
    for (size_t begin = 0; begin < sum.bytes; begin += piece) {
      const size_t bytes = std::min(piece, sum.bytes - begin);
      auto* const to = static_cast<uint8_t*>(sum.data) + begin;
      std::vector<const uint8_t*> inputs = {to};
      for (size_t i = 1; i <= others; ++i) {
        uint8_t* const copy = copies->data() + (i - 1) * piece;
        const auto* const from = static_cast<const uint8_t*>(gradients_[i][p].data) + begin;
        memory.Copy({from, bytes}, copy);
        inputs.push_back(copy);
      }
      memory.Check(memory.math().Sum(inputs, {TypeInEngine(sum.type), {to, bytes}}));
    }
  }
}

}  // namespace dp::library
