#include "base/data/npy_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/data/file_bytes.h"
#include "base/data/zip_member.h"
#include "base/status.h"

namespace dp::data {
namespace {

constexpr absl::string_view kNpyMagic("\x93NUMPY", 6);
constexpr size_t kNpyAxesMax = 32;

absl::Status WrongNpy(const std::string& place, const absl::AlphaNum& what) {
  return absl::InvalidArgumentError(absl::StrCat(place, ": ", what));
}

struct NpyHeader {
  ElementType type = ElementType::kUint8;
  bool big_endian = false;
  std::vector<int64_t> extents;
  size_t body_at = 0;
};

// The text behind a key of the header's dictionary, which NumPy writes as 'key': value.
std::optional<absl::string_view> ValueOf(absl::string_view dictionary, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t at = dictionary.find(quoted);
  if (at == absl::string_view::npos) return std::nullopt;
  return absl::StripLeadingAsciiWhitespace(dictionary.substr(at + quoted.size()));
}

absl::Status TakeType(const std::string& place, absl::string_view value, NpyHeader& header) {
  const std::string text(value.substr(0, value.find_first_of(",}", 1)));
  const std::string type(text.size() > 3 ? text.substr(2, text.size() - 3) : "");
  struct Known {
    const char* name;
    ElementType type;
  };
  constexpr Known kKnown[] = {
      {"u1", ElementType::kUint8},   {"b1", ElementType::kInt8},    {"i1", ElementType::kInt8},
      {"i2", ElementType::kInt16},   {"i4", ElementType::kInt32},   {"i8", ElementType::kInt64},
      {"f4", ElementType::kFloat32}, {"f8", ElementType::kFloat64},
  };
  for (const Known& known : kKnown) {
    if (type != known.name) continue;
    header.type = known.type;
    header.big_endian = text[1] == '>';
    return absl::OkStatus();
  }
  return WrongNpy(place, absl::StrCat("has elements of type ", text,
                                      "; write it as float32, float64, uint8, bool or a signed "
                                      "integer, as array.astype('float32')"));
}

absl::Status TakeShape(const std::string& place, absl::string_view value, NpyHeader& header) {
  const size_t end = value.find(')');
  if (!absl::ConsumePrefix(&value, "(") || end == absl::string_view::npos) {
    return WrongNpy(place, "has a header without a shape");
  }
  for (const absl::string_view part :
       absl::StrSplit(value.substr(0, end - 1), ',', absl::SkipWhitespace())) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent < 0 || header.extents.size() >= kNpyAxesMax) {
      return WrongNpy(place, absl::StrCat("has a shape with ", part));
    }
    header.extents.push_back(extent);
  }
  if (header.extents.empty()) return WrongNpy(place, "is a single number; expected samples");
  return absl::OkStatus();
}

absl::StatusOr<NpyHeader> ParseNpyHeader(const std::string& place,
                                         absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (absl::StartsWith(text, "PK\x03\x04")) {
    return WrongNpy(place,
                    absl::StrCat("is an archive of arrays; name an array, as ", place, "#x"));
  }
  if (!absl::StartsWith(text, kNpyMagic)) {
    return WrongNpy(place, "is no NPY file: it does not begin with \\x93NUMPY");
  }
  const bool first_version = bytes.size() > 6 && bytes[6] == 1;
  const size_t dictionary_at = first_version ? 10 : 12;
  if (bytes.size() < dictionary_at) return WrongNpy(place, "ends within its header");
  size_t size = bytes[8] | size_t{bytes[9]} << 8;
  if (!first_version) size |= size_t{bytes[10]} << 16 | size_t{bytes[11]} << 24;
  if (bytes.size() - dictionary_at < size) return WrongNpy(place, "ends within its header");
  const absl::string_view dictionary = text.substr(dictionary_at, size);
  const auto type = ValueOf(dictionary, "descr");
  const auto fortran = ValueOf(dictionary, "fortran_order");
  const auto shape = ValueOf(dictionary, "shape");
  if (!type || !fortran || !shape) {
    return WrongNpy(place, "has a header without descr, fortran_order or shape");
  }
  NpyHeader header{.body_at = dictionary_at + size};
  DP_RETURN_IF_ERROR(TakeType(place, *type, header));
  DP_RETURN_IF_ERROR(TakeShape(place, *shape, header));
  if (!absl::StartsWith(*fortran, "False") && header.extents.size() > 1) {
    return WrongNpy(place,
                    "has Fortran's order of axes; write it as numpy.ascontiguousarray(array)");
  }
  return header;
}

absl::StatusOr<FileBytes> OpenPlace(const std::string& place) {
  const size_t hash = place.rfind('#');
  std::error_code error;
  const bool whole = hash == std::string::npos || std::filesystem::exists(place, error);
  if (whole) return OpenFile(place);
  const std::string archive = place.substr(0, hash);
  DP_ASSIGN_OR_RETURN(const FileBytes file, OpenFile(archive));
  std::string member = place.substr(hash + 1);
  if (!absl::EndsWith(member, ".npy")) member += ".npy";
  absl::StatusOr<FileBytes> found = ReadZipMember(file, member);
  if (found.ok()) return found;
  return absl::Status(found.status().code(), absl::StrCat(archive, ": ", found.status().message()));
}

absl::StatusOr<Rows> RowsOfNpy(const std::string& place, bool images) {
  DP_ASSIGN_OR_RETURN(FileBytes file, OpenPlace(place));
  DP_ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(place, file.bytes));
  int64_t row_bytes = SizeOf(header.type);
  int64_t body_bytes = 0;
  bool overflows = false;
  for (size_t axis = 1; axis < header.extents.size(); ++axis) {
    overflows |= __builtin_mul_overflow(row_bytes, header.extents[axis], &row_bytes);
  }
  overflows |= __builtin_mul_overflow(row_bytes, header.extents[0], &body_bytes);
  const auto found = static_cast<int64_t>(file.bytes.size() - header.body_at);
  if (overflows || body_bytes != found) {
    return WrongNpy(
        place, absl::StrCat("has ", found, " bytes of elements, but the shape asks for ",
                            overflows ? "more than a file can have" : absl::StrCat(body_bytes)));
  }
  if (body_bytes == 0) return WrongNpy(place, "holds no samples");
  model::Shape shape(header.extents.begin() + 1, header.extents.end());
  if (shape.empty()) shape.push_back(1);
  if (images && shape.size() == 2) shape.insert(shape.begin(), 1);
  Rows rows(header.type, header.big_endian, std::move(shape));
  rows.Append({.first = file.bytes.data() + header.body_at,
               .stride = row_bytes,
               .count = header.extents[0]},
              std::move(file.owner));
  return rows;
}

absl::Status CheckCounts(const ArrayFiles& files, const std::string& other, int64_t inputs,
                         int64_t count) {
  if (inputs == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(files.inputs, " has ", inputs, " samples, but ", other, " has ", count));
}

}  // namespace

absl::StatusOr<Rows> ReadNpy(const std::string& place) { return RowsOfNpy(place, false); }

absl::StatusOr<SampleSet> ReadArraySet(const ArrayFiles& files) {
  SampleSet set;
  set.inputs_name = files.inputs;
  DP_ASSIGN_OR_RETURN(set.inputs, ReadArrayInputs(files));
  if (!files.targets.empty()) {
    DP_ASSIGN_OR_RETURN(set.targets, ReadNpy(files.targets));
    set.targets_name = files.targets;
    DP_RETURN_IF_ERROR(CheckCounts(files, files.targets, set.inputs.size(), set.targets->size()));
    return set;
  }
  DP_ASSIGN_OR_RETURN(const Rows labels, ReadNpy(files.labels));
  DP_RETURN_IF_ERROR(CheckCounts(files, files.labels, set.inputs.size(), labels.size()));
  if (labels.elements() != 1) {
    return WrongNpy(files.labels, absl::StrCat("has ", model::ShapeText(labels.shape()),
                                               " labels for each sample; expected one"));
  }
  DP_ASSIGN_OR_RETURN(set.labels, LabelsFrom(labels, files.labels));
  set.labels_name = files.labels;
  return set;
}

absl::StatusOr<Rows> ReadArrayInputs(const ArrayFiles& files) {
  return RowsOfNpy(files.inputs, !files.two_axes);
}

absl::StatusOr<model::Shape> ReadArrayShape(const ArrayFiles& files) {
  DP_ASSIGN_OR_RETURN(const Rows inputs, ReadArrayInputs(files));
  return inputs.shape();
}

}  // namespace dp::data
