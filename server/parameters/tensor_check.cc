#include "server/parameters/tensor_check.h"

#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/limits.h"
#include "base/status.h"
#include "base/utf8.h"

namespace dp::server {
namespace {

// More than any disk holds, and far from an overflow.
constexpr uint64_t kBytesMax = uint64_t{1} << 50;

// 0: no such type.
uint64_t BytesOfElement(absl::string_view type) {
  for (const char* known : {"F64", "I64", "U64"}) {
    if (type == known) return 8;
  }
  for (const char* known : {"F32", "I32", "U32"}) {
    if (type == known) return 4;
  }
  for (const char* known : {"F16", "BF16", "I16", "U16"}) {
    if (type == known) return 2;
  }
  for (const char* known : {"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}) {
    if (type == known) return 1;
  }
  return 0;
}

absl::Status Wrong(const v1::ParameterTensor& tensor, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensors: '", absl::CEscape(tensor.name()), "' ", what));
}

absl::Status CheckTensor(const v1::ParameterTensor& tensor) {
  if (tensor.name().empty() || tensor.name().size() > kTensorNameBytesMax ||
      !IsUtf8(tensor.name())) {
    return Wrong(tensor,
                 absl::StrCat("is no name; give 1 to ", kTensorNameBytesMax, " bytes of UTF-8"));
  }
  uint64_t bytes = BytesOfElement(tensor.type());
  if (bytes == 0) {
    return Wrong(tensor, absl::StrCat("has the unknown type '", absl::CEscape(tensor.type()),
                                      "'; give one of safetensors, as F32"));
  }
  for (const int64_t extent : tensor.shape()) {
    if (extent < 0 || (extent > 0 && bytes > kBytesMax / static_cast<uint64_t>(extent))) {
      return Wrong(tensor, absl::StrCat("has the extent ", extent, ", which is out of range"));
    }
    bytes *= static_cast<uint64_t>(extent);
  }
  if (bytes == tensor.bytes()) return absl::OkStatus();
  return Wrong(tensor, absl::StrCat("has ", tensor.bytes(), " bytes, but its shape needs ", bytes));
}

}  // namespace

absl::StatusOr<uint64_t> CheckTensors(const v1::ParameterVersion& version) {
  if (version.tensors_size() > kParameterTensorsMax) {
    return absl::InvalidArgumentError(absl::StrCat("tensors: there are ", version.tensors_size(),
                                                   ", more than ", kParameterTensorsMax));
  }
  std::set<absl::string_view> names;
  uint64_t bytes = 0;
  for (const v1::ParameterTensor& tensor : version.tensors()) {
    DP_RETURN_IF_ERROR(CheckTensor(tensor));
    if (!names.insert(tensor.name()).second) return Wrong(tensor, "occurs twice");
    bytes += tensor.bytes();
    if (bytes > kBytesMax) return Wrong(tensor, "makes the version larger than any disk");
  }
  return bytes;
}

absl::Status CheckDescription(const v1::ParameterVersion& version) {
  const size_t bytes = version.ByteSizeLong();
  if (bytes <= kVersionDescriptionBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensors: names, shapes and texts of ", version.tensors_size(), " tensors need ", bytes,
      " bytes; give at most ", kVersionDescriptionBytesMax, ", by shorter names or several sets"));
}

absl::Status CheckMetadata(const v1::ParameterVersion& version) {
  size_t bytes = 0;
  for (const auto& [name, text] : version.metadata()) bytes += name.size() + text.size();
  if (bytes <= kParameterMetadataBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("metadata: names and texts have ", bytes,
                                                 " bytes together; give at most ",
                                                 kParameterMetadataBytesMax));
}

}  // namespace dp::server
