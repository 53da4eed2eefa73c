#include "base/data/idx_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/data/file_bytes.h"
#include "base/status.h"

namespace dp::data {
namespace {

struct IdxType {
  uint8_t code;
  ElementType type;
  const char* name;
};
constexpr IdxType kIdxTypes[] = {
    {0x08, ElementType::kUint8, "ubyte"},   {0x09, ElementType::kInt8, "byte"},
    {0x0b, ElementType::kInt16, "short"},   {0x0c, ElementType::kInt32, "int"},
    {0x0d, ElementType::kFloat32, "float"}, {0x0e, ElementType::kFloat64, "double"},
};
constexpr int kIdxAxesMax = 8;
constexpr size_t kIdxHeaderBytesMax = 4 + 4 * kIdxAxesMax;

uint32_t BigEndianWord(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

absl::Status WrongIdx(const std::string& path, const absl::AlphaNum& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// The header holds 0, 0, the type and the number of axes; then each extent.
struct IdxHeader {
  ElementType type = ElementType::kUint8;
  std::vector<int64_t> extents;
  int64_t header_bytes = 0;
  int64_t body_bytes = 0;
};

absl::Status CountBody(const std::string& path, IdxHeader& header) {
  header.body_bytes = SizeOf(header.type);
  for (const int64_t extent : header.extents) {
    if (extent == 0) return WrongIdx(path, "holds no samples");
    if (__builtin_mul_overflow(header.body_bytes, extent, &header.body_bytes)) {
      return WrongIdx(path, "the header asks for more bytes than a file can have");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<IdxHeader> ParseIdxHeader(const std::string& path, absl::Span<const uint8_t> bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < 4) {
    return WrongIdx(
        path, absl::StrCat("truncated: an IDX file has a header of 8 bytes or more, found ", size));
  }
  const uint32_t magic = BigEndianWord(bytes.data());
  const auto* const type =
      std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes),
                   [magic](const IdxType& each) { return each.code == magic >> 8; });
  const auto axes = static_cast<int>(magic & 0xff);
  if (type == std::end(kIdxTypes) || axes < 1 || axes > kIdxAxesMax) {
    return WrongIdx(
        path, absl::StrFormat("magic number is 0x%08x, which is not one of an IDX file; bytes "
                              "with 3 axes have 0x00000803",
                              magic));
  }
  IdxHeader header{.type = type->type, .header_bytes = 4 + 4 * int64_t{axes}};
  if (size < header.header_bytes) {
    return WrongIdx(path, absl::StrCat("truncated: the header has ", header.header_bytes,
                                       " bytes, found ", size));
  }
  for (int axis = 0; axis < axes; ++axis) {
    header.extents.push_back(BigEndianWord(bytes.data() + 4 + 4 * axis));
  }
  DP_RETURN_IF_ERROR(CountBody(path, header));
  return header;
}

absl::Status CheckIdxSize(const std::string& path, const IdxHeader& header, size_t size) {
  const int64_t body = static_cast<int64_t>(size) - header.header_bytes;
  if (body < header.body_bytes) {
    return WrongIdx(path, absl::StrCat("truncated: the header asks for ", header.body_bytes,
                                       " bytes, found ", body));
  }
  if (body > header.body_bytes) {
    return WrongIdx(
        path, absl::StrCat("longer than the ", header.body_bytes, " bytes its header asks for"));
  }
  return absl::OkStatus();
}

// A name such as "images-idx3-ubyte", taken apart.
struct IdxName {
  int axes = 0;
  const IdxType* type = nullptr;
};

std::optional<IdxName> ParseIdxName(absl::string_view name, absl::string_view begin) {
  IdxName parsed;
  if (!absl::ConsumePrefix(&name, begin) || name.size() < 3 || name[1] != '-' ||
      !absl::SimpleAtoi(name.substr(0, 1), &parsed.axes)) {
    return std::nullopt;
  }
  for (const IdxType& type : kIdxTypes) {
    if (name.substr(2) == type.name) parsed.type = &type;
  }
  if (parsed.type == nullptr) return std::nullopt;
  return parsed;
}

struct IdxPlace {
  std::string path;
  IdxName name;
};

// `what` is "images" or "labels". Bytes with the usual number of axes come first, plain before .gz.
// Without them, there may be one file of any other number or type.
absl::StatusOr<IdxPlace> FindIdx(const std::string& dir, const std::vector<std::string>& prefixes,
                                 const std::string& what, int usual_axes) {
  DP_RETURN_IF_ERROR(CheckDataDir(dir));
  std::error_code error;
  const std::string usual = absl::StrCat(what, "-idx", usual_axes, "-ubyte");
  std::vector<std::pair<std::string, IdxName>> others;
  for (const std::string& prefix : prefixes) {
    const std::string begin = absl::StrCat(prefix, "-", what, "-idx");
    for (const char* ending : {"", ".gz"}) {
      const std::string path = absl::StrCat(dir, "/", prefix, "-", usual, ending);
      if (std::filesystem::exists(path, error)) {
        return IdxPlace{path, *ParseIdxName(absl::StrCat(prefix, "-", usual), begin)};
      }
    }
    for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
         it.increment(error)) {
      const std::string file = it->path().filename().string();
      if (const auto name = ParseIdxName(absl::StripSuffix(file, ".gz"), begin)) {
        others.emplace_back(file, *name);
      }
    }
  }
  std::sort(others.begin(), others.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  if (others.empty()) {
    const std::string name = absl::StrCat(prefixes.front(), "-", usual);
    return absl::NotFoundError(
        absl::StrCat("data directory ", dir, " has neither ", name, " nor ", name, ".gz"));
  }
  const std::string first(absl::StripSuffix(others.front().first, ".gz"));
  if (absl::StripSuffix(others.back().first, ".gz") != first) {
    return absl::InvalidArgumentError(absl::StrCat("data directory ", dir, " has ", first, " and ",
                                                   others.back().first, "; keep one"));
  }
  return IdxPlace{absl::StrCat(dir, "/", others.front().first), others.front().second};
}

// A file that is called idx3-ubyte holds bytes with three axes.
absl::Status CheckIdxName(const IdxPlace& place, const IdxHeader& header) {
  const auto axes = static_cast<int>(header.extents.size());
  if (axes == place.name.axes && header.type == place.name.type->type) return absl::OkStatus();
  const auto magic = [](ElementType type, int count) {
    const auto* const found =
        std::find_if(std::begin(kIdxTypes), std::end(kIdxTypes),
                     [type](const IdxType& each) { return each.type == type; });
    return uint32_t{found->code} << 8 | static_cast<uint32_t>(count);
  };
  const bool bytes = place.name.type->type == ElementType::kUint8;
  return WrongIdx(
      place.path,
      absl::StrFormat("magic number is 0x%08x, but an IDX file of %s with %d axes has 0x%08x",
                      magic(header.type, axes), bytes ? "bytes" : place.name.type->name,
                      place.name.axes, magic(place.name.type->type, place.name.axes)));
}

struct OpenedIdx {
  FileBytes file;
  IdxHeader header;
};

absl::StatusOr<OpenedIdx> OpenIdx(const IdxPlace& place, size_t at_least = SIZE_MAX) {
  OpenedIdx idx;
  DP_ASSIGN_OR_RETURN(idx.file, OpenFile(place.path, at_least));
  DP_ASSIGN_OR_RETURN(idx.header, ParseIdxHeader(place.path, idx.file.bytes));
  if (place.name.type != nullptr) DP_RETURN_IF_ERROR(CheckIdxName(place, idx.header));
  return idx;
}

// Rows and columns alone are an image of one channel.
model::Shape SampleShapeOf(const IdxHeader& header, bool images) {
  model::Shape shape(header.extents.begin() + 1, header.extents.end());
  if (shape.empty()) shape.push_back(1);
  if (images && shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

absl::StatusOr<Rows> RowsOf(const IdxPlace& place, bool images) {
  DP_ASSIGN_OR_RETURN(OpenedIdx idx, OpenIdx(place));
  DP_RETURN_IF_ERROR(CheckIdxSize(place.path, idx.header, idx.file.bytes.size()));
  const int64_t count = idx.header.extents[0];
  Rows rows(idx.header.type, /*big_endian=*/true, SampleShapeOf(idx.header, images));
  rows.Append({.first = idx.file.bytes.data() + idx.header.header_bytes,
               .stride = idx.header.body_bytes / count,
               .count = count},
              std::move(idx.file.owner));
  return rows;
}

absl::StatusOr<Rows> LabelRows(const IdxPlace& place) {
  DP_ASSIGN_OR_RETURN(Rows rows, RowsOf(place, false));
  if (rows.elements() == 1) return rows;
  return WrongIdx(place.path, absl::StrCat("has ", model::ShapeText(rows.shape()),
                                           " labels for each sample; expected one"));
}

std::vector<std::string> PrefixesOf(Split split) {
  if (split == Split::kTrain) return {"train"};
  return {"t10k", "test"};
}

}  // namespace

absl::StatusOr<Rows> ReadIdx(const std::string& path) { return RowsOf({.path = path}, false); }

absl::StatusOr<SampleSet> ReadIdxSet(const std::string& dir, Split split) {
  const std::vector<std::string> prefixes = PrefixesOf(split);
  DP_ASSIGN_OR_RETURN(const IdxPlace images, FindIdx(dir, prefixes, "images", 3));
  DP_ASSIGN_OR_RETURN(const IdxPlace labels, FindIdx(dir, prefixes, "labels", 1));
  SampleSet set;
  set.inputs_name = images.path;
  DP_ASSIGN_OR_RETURN(set.inputs, RowsOf(images, true));
  DP_ASSIGN_OR_RETURN(const Rows classes, LabelRows(labels));
  if (set.inputs.size() != classes.size()) {
    const auto name = [](const IdxPlace& place) {
      return std::filesystem::path(place.path).filename().string();
    };
    return absl::InvalidArgumentError(absl::StrCat("in ", dir, ", ", name(images), " has ",
                                                   set.inputs.size(), " samples, but ",
                                                   name(labels), " has ", classes.size()));
  }
  DP_ASSIGN_OR_RETURN(set.labels, LabelsFrom(classes, labels.path));
  set.labels_name = labels.path;
  return set;
}

absl::StatusOr<model::Shape> ReadIdxShape(const std::string& dir) {
  DP_ASSIGN_OR_RETURN(const IdxPlace images, FindIdx(dir, PrefixesOf(Split::kTrain), "images", 3));
  DP_ASSIGN_OR_RETURN(const OpenedIdx idx, OpenIdx(images, kIdxHeaderBytesMax));
  return SampleShapeOf(idx.header, true);
}

absl::StatusOr<int> ReadIdxClasses(const std::string& dir) {
  DP_ASSIGN_OR_RETURN(const IdxPlace place, FindIdx(dir, PrefixesOf(Split::kTrain), "labels", 1));
  DP_ASSIGN_OR_RETURN(const Rows rows, LabelRows(place));
  DP_ASSIGN_OR_RETURN(const Labels labels, LabelsFrom(rows, place.path));
  return labels.classes();
}

}  // namespace dp::data
