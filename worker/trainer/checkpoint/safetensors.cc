#include "worker/trainer/checkpoint/safetensors.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace dp::trainer {
namespace {

std::string HeaderEntry(const NamedTensor& tensor, size_t begin, size_t end) {
  return absl::StrCat("\"", tensor.name, "\":{\"dtype\":\"F32\",\"shape\":[",
                      absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", begin, ",", end,
                      "]}");
}

std::string Header(absl::Span<const NamedTensor> tensors) {
  std::vector<std::string> entries;
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const size_t end = offset + tensor.values.size() * sizeof(float);
    entries.push_back(HeaderEntry(tensor, offset, end));
    offset = end;
  }
  std::string header = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  // The format lets spaces pad the header. Readers map the data into memory, so align it.
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

// The format's own limit; a longer header is damage.
constexpr uint64_t kHeaderBytesMax = 100 << 20;

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("no safetensors file: ", what));
}

using Value = google::protobuf::Value;
using Fields = google::protobuf::Map<std::string, Value>;

// A whole number from 0 to 2^53, the range in which JSON is exact. Errors: InvalidArgument.
absl::StatusOr<int64_t> WholeNumber(const Value& value) {
  constexpr double kExactMax = 9007199254740992.0;
  const double number = value.number_value();
  if (value.kind_case() == Value::kNumberValue && number >= 0 && number <= kExactMax &&
      std::floor(number) == number) {
    return static_cast<int64_t>(number);
  }
  return Broken("a size is no whole number");
}

absl::StatusOr<std::vector<int64_t>> WholeNumbers(const Fields& fields, const std::string& name) {
  const auto list = fields.find(name);
  if (list == fields.end() || !list->second.has_list_value()) {
    return Broken(absl::StrCat("a tensor has no ", name));
  }
  std::vector<int64_t> numbers;
  for (const Value& value : list->second.list_value().values()) {
    DP_ASSIGN_OR_RETURN(const int64_t number, WholeNumber(value));
    numbers.push_back(number);
  }
  return numbers;
}

// A product that overflows exceeds the size of any file.
absl::StatusOr<int64_t> BytesOf(const std::vector<int64_t>& shape) {
  int64_t bytes = sizeof(float);
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return Broken("a shape is too large");
  }
  return bytes;
}

absl::StatusOr<EncodedTensor> TensorOf(const Fields& fields, absl::string_view data) {
  const auto type = fields.find("dtype");
  if (type == fields.end() || type->second.string_value() != "F32") {
    return absl::UnimplementedError("a tensor is of another type than F32");
  }
  EncodedTensor tensor;
  DP_ASSIGN_OR_RETURN(tensor.shape, WholeNumbers(fields, "shape"));
  DP_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, WholeNumbers(fields, "data_offsets"));
  DP_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor.shape));
  const bool fits = offsets.size() == 2 && offsets[0] <= offsets[1] &&
                    offsets[1] <= static_cast<int64_t>(data.size()) &&
                    offsets[1] - offsets[0] == bytes;
  if (!fits) return Broken("a tensor's offsets do not fit its shape or the file");
  tensor.data = data.substr(static_cast<size_t>(offsets[0]), static_cast<size_t>(bytes));
  return tensor;
}

// Checks that the tensors cover `data` without holes or overlaps.
absl::Status CheckCover(const std::map<std::string, EncodedTensor>& tensors,
                        absl::string_view data) {
  std::map<const char*, size_t> sizes;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.data.empty()) continue;
    if (!sizes.emplace(tensor.data.data(), tensor.data.size()).second) {
      return Broken("two tensors overlap");
    }
  }
  const char* at = data.data();
  for (const auto& [begin, size] : sizes) {
    if (begin != at) return Broken("tensors overlap or leave a hole");
    at += size;
  }
  return at == data.data() + data.size() ? absl::OkStatus() : Broken("there is data of no tensor");
}

}  // namespace

std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors) {
  const std::string header = Header(tensors);
  const uint64_t length = header.size();
  std::string encoded;
  for (int byte = 0; byte < 8; ++byte) encoded.push_back(static_cast<char>(length >> (8 * byte)));
  encoded += header;
  for (const NamedTensor& tensor : tensors) {
    encoded.append(reinterpret_cast<const char*>(tensor.values.data()),
                   tensor.values.size() * sizeof(float));
  }
  return encoded;
}

absl::StatusOr<std::map<std::string, EncodedTensor>> DecodeSafetensors(absl::string_view encoded) {
  uint64_t length = 0;
  if (encoded.size() < sizeof(length)) return Broken("it is too short");
  for (size_t byte = 0; byte < sizeof(length); ++byte) {
    length |= uint64_t{static_cast<unsigned char>(encoded[byte])} << (8 * byte);
  }
  encoded.remove_prefix(sizeof(length));
  if (length > kHeaderBytesMax || length > encoded.size()) {
    return Broken(absl::StrCat("its header has ", length, " bytes of ", encoded.size()));
  }
  google::protobuf::Struct header;
  const absl::string_view text = encoded.substr(0, static_cast<size_t>(length));
  if (!google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &header).ok()) {
    return Broken("its header is no JSON");
  }
  const absl::string_view data = encoded.substr(static_cast<size_t>(length));
  std::map<std::string, EncodedTensor> tensors;
  for (const auto& [name, value] : header.fields()) {
    if (name == "__metadata__") continue;
    DP_ASSIGN_OR_RETURN(tensors[name], TensorOf(value.struct_value().fields(), data));
  }
  DP_RETURN_IF_ERROR(CheckCover(tensors, data));
  return tensors;
}

}  // namespace dp::trainer
