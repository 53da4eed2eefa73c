#include "client/dpctl/verbs/weights_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::ctl {

absl::StatusOr<WeightsFile> OpenWeights(const std::string& path) {
  std::error_code error;
  const bool directory = std::filesystem::is_directory(path, error);
  const std::string file = directory ? absl::StrCat(path, "/model.safetensors") : path;
  auto bytes = data::OpenFile(file);
  if (!bytes.ok()) return absl::InvalidArgumentError(bytes.status().message());
  WeightsFile weights{.file = *std::move(bytes), .tensors = {}};
  auto tensors = DecodeSafetensors(weights.encoded());
  if (!tensors.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", tensors.status().message()));
  }
  weights.tensors = *std::move(tensors);
  return weights;
}

}  // namespace dp::ctl
