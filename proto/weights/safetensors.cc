#include "proto/weights/safetensors.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace dp {
namespace {

constexpr char kMetadata[] = "__metadata__";

// As JSON writes it, in quotes.
std::string JsonText(absl::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      json += c;
    } else {
      absl::StrAppend(&json, "\\u", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad4));
    }
  }
  return json + "\"";
}

std::string MetadataEntry(const SafetensorsMetadata& metadata) {
  std::vector<std::string> texts;
  for (const auto& [name, text] : metadata) {
    texts.push_back(absl::StrCat(JsonText(name), ":", JsonText(text)));
  }
  return absl::StrCat("\"", kMetadata, "\":{", absl::StrJoin(texts, ","), "}");
}

std::string TensorEntry(const TensorForm& tensor, uint64_t offset) {
  return absl::StrCat(JsonText(tensor.name), ":{\"dtype\":\"", tensor.type, "\",\"shape\":[",
                      absl::StrJoin(tensor.shape, ","), "],\"data_offsets\":[", offset, ",",
                      offset + tensor.bytes, "]}");
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

// Bytes of one element. Errors: Unimplemented.
absl::StatusOr<int64_t> ElementBytes(const std::string& type) {
  static constexpr std::pair<absl::string_view, int64_t> kTypes[] = {
      {"F64", 8},  {"F32", 4}, {"F16", 2},     {"BF16", 2},   {"I64", 8}, {"I32", 4},
      {"I16", 2},  {"I8", 1},  {"U64", 8},     {"U32", 4},    {"U16", 2}, {"U8", 1},
      {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return absl::UnimplementedError(
      absl::StrCat("a tensor is of type ", type, ", which this release does not know"));
}

// A product that overflows exceeds the size of any file.
absl::StatusOr<int64_t> BytesOf(int64_t bytes, const std::vector<int64_t>& shape) {
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return Broken("a shape is too large");
  }
  return bytes;
}

absl::StatusOr<EncodedTensor> TensorOf(const Fields& fields, absl::string_view data) {
  const auto type = fields.find("dtype");
  if (type == fields.end() || !type->second.has_string_value()) {
    return Broken("a tensor has no dtype");
  }
  EncodedTensor tensor{.type = type->second.string_value()};
  DP_ASSIGN_OR_RETURN(const int64_t of_element, ElementBytes(tensor.type));
  DP_ASSIGN_OR_RETURN(tensor.shape, WholeNumbers(fields, "shape"));
  DP_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, WholeNumbers(fields, "data_offsets"));
  DP_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(of_element, tensor.shape));
  const bool fits = offsets.size() == 2 && offsets[0] <= offsets[1] &&
                    offsets[1] <= static_cast<int64_t>(data.size()) &&
                    offsets[1] - offsets[0] == bytes;
  if (!fits) return Broken("a tensor's offsets do not fit its shape, or the file is truncated");
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

// The two parts of an encoding.
struct Parts {
  google::protobuf::Struct header;
  absl::string_view data;
};

absl::StatusOr<Parts> Split(absl::string_view encoded) {
  uint64_t length = 0;
  if (encoded.size() < sizeof(length))
    return Broken(
        absl::StrCat("it has ", encoded.size(), " bytes; it is truncated, or of another format"));
  for (size_t byte = 0; byte < sizeof(length); ++byte) {
    length |= uint64_t{static_cast<unsigned char>(encoded[byte])} << (8 * byte);
  }
  encoded.remove_prefix(sizeof(length));
  if (length > kHeaderBytesMax || length > encoded.size()) {
    return Broken(absl::StrCat("its first bytes say that a header of ", length,
                               " bytes follows, and ", encoded.size(),
                               " follow; it is truncated, so copy it again, or of another format"));
  }
  Parts parts{.header = {}, .data = encoded.substr(static_cast<size_t>(length))};
  const absl::string_view text = encoded.substr(0, static_cast<size_t>(length));
  if (!google::protobuf::util::JsonStringToMessage({text.data(), text.size()}, &parts.header)
           .ok()) {
    return Broken("its header is no JSON");
  }
  return parts;
}

}  // namespace

std::string EncodeSafetensors(absl::Span<const NamedTensor> tensors,
                              absl::Span<const NamedCount> counts,
                              const SafetensorsMetadata& metadata) {
  std::vector<TensorForm> forms;
  // The widest elements come first, so that all are aligned.
  for (const NamedCount& count : counts) {
    forms.push_back({count.name, "I64", {}, sizeof(count.value)});
  }
  for (const NamedTensor& tensor : tensors) {
    forms.push_back({tensor.name, "F32", tensor.shape, tensor.values.size() * sizeof(float)});
  }
  std::string encoded = SafetensorsHeader(forms, metadata);
  for (const NamedCount& count : counts) {
    encoded.append(reinterpret_cast<const char*>(&count.value), sizeof(count.value));
  }
  for (const NamedTensor& tensor : tensors) {
    encoded.append(reinterpret_cast<const char*>(tensor.values.data()),
                   tensor.values.size() * sizeof(float));
  }
  return encoded;
}

std::string SafetensorsHeader(absl::Span<const TensorForm> tensors,
                              const SafetensorsMetadata& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) entries.push_back(MetadataEntry(metadata));
  uint64_t offset = 0;
  for (const TensorForm& tensor : tensors) {
    entries.push_back(TensorEntry(tensor, offset));
    offset += tensor.bytes;
  }
  std::string text = absl::StrCat("{", absl::StrJoin(entries, ","), "}");
  // The format lets spaces pad the header. Readers map the data into memory, so align it.
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string header;
  for (int byte = 0; byte < 8; ++byte) header.push_back(static_cast<char>(length >> (8 * byte)));
  return header + text;
}

absl::StatusOr<std::map<std::string, EncodedTensor>> DecodeSafetensors(absl::string_view encoded) {
  DP_ASSIGN_OR_RETURN(const Parts parts, Split(encoded));
  std::map<std::string, EncodedTensor> tensors;
  for (const auto& [name, value] : parts.header.fields()) {
    if (name == kMetadata) continue;
    DP_ASSIGN_OR_RETURN(tensors[name], TensorOf(value.struct_value().fields(), parts.data));
  }
  DP_RETURN_IF_ERROR(CheckCover(tensors, parts.data));
  return tensors;
}

absl::StatusOr<SafetensorsMetadata> ReadSafetensorsMetadata(absl::string_view encoded) {
  DP_ASSIGN_OR_RETURN(const Parts parts, Split(encoded));
  SafetensorsMetadata metadata;
  const auto found = parts.header.fields().find(kMetadata);
  if (found == parts.header.fields().end()) return metadata;
  for (const auto& [name, text] : found->second.struct_value().fields()) {
    metadata[name] = text.string_value();
  }
  return metadata;
}

}  // namespace dp
