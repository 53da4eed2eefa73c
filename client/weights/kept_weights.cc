#include "client/weights/kept_weights.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/data/new_file.h"
#include "base/status.h"
#include "proto/weights/safetensors.h"

namespace dp::client {
namespace {

std::string HeaderOf(const v1::ParameterVersion& version) {
  std::vector<TensorForm> forms;
  for (const v1::ParameterTensor& tensor : version.tensors()) {
    forms.push_back({tensor.name(),
                     tensor.type(),
                     {tensor.shape().begin(), tensor.shape().end()},
                     tensor.bytes()});
  }
  return SafetensorsHeader(forms, {version.metadata().begin(), version.metadata().end()});
}

}  // namespace

absl::StatusOr<v1::ParameterVersion> PushWeights(Parameters& parameters, const ParameterSet& set,
                                                 absl::string_view encoded,
                                                 Parameters::PushOptions options) {
  DP_ASSIGN_OR_RETURN(const auto tensors, DecodeSafetensors(encoded));
  DP_ASSIGN_OR_RETURN(options.metadata, ReadSafetensorsMetadata(encoded));
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    views.push_back({name, tensor.type, tensor.shape, tensor.data});
  }
  std::stable_sort(views.begin(), views.end(), [](const TensorView& a, const TensorView& b) {
    return std::tuple(a.data.data(), a.data.size()) < std::tuple(b.data.data(), b.data.size());
  });
  return parameters.Push(set, views, options);
}

absl::StatusOr<v1::ParameterVersion> PullWeights(Parameters& parameters, const ParameterSet& set,
                                                 uint64_t version, const std::string& path) {
  DP_RETURN_IF_ERROR(data::CheckIsNew(path));
  DP_ASSIGN_OR_RETURN(PulledParameters pulled, parameters.Pull(set, {.version = version}));
  data::NewFile file(path);
  file.Write(HeaderOf(pulled.version));
  file.Write(pulled.data);
  DP_RETURN_IF_ERROR(file.Finish());
  return std::move(pulled.version);
}

}  // namespace dp::client
