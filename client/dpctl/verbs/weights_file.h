#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/data/file_bytes.h"
#include "proto/weights/safetensors.h"

namespace dp::ctl {

// The tensors of a file of weights.
struct WeightsFile {
  data::FileBytes file;
  std::map<std::string, EncodedTensor> tensors;  // they borrow from `file`

  absl::string_view encoded() const {
    return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
  }
};

// Opens a file of weights, or that of a checkpoint's directory. Errors: InvalidArgument, with the
// path, whatever is wrong: NotFound is about jobs.
absl::StatusOr<WeightsFile> OpenWeights(const std::string& path);

}  // namespace dp::ctl
