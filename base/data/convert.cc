#include "base/data/convert.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/data/bpe_file.h"
#include "base/data/csv_file.h"
#include "base/data/file_bytes.h"
#include "base/data/idx_file.h"
#include "base/data/new_file.h"
#include "base/data/npy_file.h"
#include "base/data/recognize.h"
#include "base/status.h"

namespace dp::data {
namespace {

std::string NpyTypeOf(ElementType type, bool big_endian) {
  const int64_t size = SizeOf(type);
  const char kind = IsFloat(type) ? 'f' : type == ElementType::kUint8 ? 'u' : 'i';
  return absl::StrCat(size == 1 ? "|" : big_endian ? ">" : "<", std::string(1, kind), size);
}

// NumPy aligns the elements to 64 bytes.
std::string NpyHeaderOf(const Rows& rows) {
  std::string header = absl::StrCat("{'descr': '", NpyTypeOf(rows.type(), rows.big_endian()),
                                    "', 'fortran_order': False, ", "'shape': (", rows.size(), ", ",
                                    absl::StrJoin(rows.shape(), ", "), "), }");
  constexpr size_t kBefore = 10;
  header.append(63 - (kBefore + header.size()) % 64, ' ');
  header += '\n';
  std::string begin("\x93NUMPY\1\0", 8);
  begin += static_cast<char>(header.size() & 0xff);
  begin += static_cast<char>(header.size() >> 8);
  return begin + header;
}

struct IdxForm {
  ElementType type;
  char code;
  const char* name;
};
constexpr IdxForm kIdxForms[] = {
    {ElementType::kUint8, 0x08, "ubyte"},   {ElementType::kInt8, 0x09, "byte"},
    {ElementType::kInt16, 0x0b, "short"},   {ElementType::kInt32, 0x0c, "int"},
    {ElementType::kFloat32, 0x0d, "float"}, {ElementType::kFloat64, 0x0e, "double"},
};

std::string BigEndianWordOf(int64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

// Samples of a single number have one axis in the file.
std::vector<int64_t> AxesOf(const Rows& rows) {
  std::vector<int64_t> axes = {rows.size()};
  if (rows.shape() != model::Shape{1}) {
    axes.insert(axes.end(), rows.shape().begin(), rows.shape().end());
  }
  return axes;
}

absl::StatusOr<std::string> IdxHeaderOf(const Rows& rows, const std::string& to) {
  const std::vector<int64_t> axes = AxesOf(rows);
  const auto* const form =
      std::find_if(std::begin(kIdxForms), std::end(kIdxForms),
                   [&](const IdxForm& each) { return each.type == rows.type(); });
  if (form == std::end(kIdxForms)) {
    return absl::InvalidArgumentError(
        absl::StrCat("IDX files have no ", NameOf(rows.type()), "; write .npy instead"));
  }
  const std::string ending = absl::StrCat("-idx", axes.size(), "-", form->name);
  if (!absl::EndsWith(to, ending)) {
    return absl::InvalidArgumentError(absl::StrCat(to, ": the samples are ", axes.size(),
                                                   " axes of ", NameOf(rows.type()),
                                                   "; give a name that ends in ", ending));
  }
  for (const int64_t axis : axes) {
    if (axis > 0xffffffff) return absl::InvalidArgumentError("more than 2^32 samples");
  }
  std::string header{0, 0, form->code, static_cast<char>(axes.size())};
  for (const int64_t axis : axes) header += BigEndianWordOf(axis);
  return header;
}

void WriteRows(const Rows& rows, bool swap, NewFile& file) {
  const int64_t size = SizeOf(rows.type());
  const int64_t row_bytes = size * rows.elements();
  std::vector<uint8_t> swapped(swap ? static_cast<size_t>(row_bytes) : 0);
  for (int64_t row = 0; row < rows.size(); ++row) {
    const uint8_t* bytes = rows.bytes(row);
    for (int64_t i = 0; swap && i < row_bytes; i += size) {
      std::reverse_copy(bytes + i, bytes + i + size, swapped.begin() + i);
    }
    file.Write(swap ? swapped.data() : bytes, row_bytes);
  }
}

absl::StatusOr<Rows> ReadAnyRows(const std::string& from) {
  if (absl::StrContains(from, "#")) return ReadNpy(from);
  DP_ASSIGN_OR_RETURN(const Format format, Recognize(from));
  if (format == Format::kIdxFile) return ReadIdx(from);
  if (format == Format::kNpyFile) return ReadNpy(from);
  if (format == Format::kCsvFile) return ReadCsvTable(from);
  return absl::InvalidArgumentError(absl::StrCat(
      from, " is ", NameOf(format),
      "; only IDX, NPY and CSV files are converted to .npy or IDX, and texts to .bin"));
}

absl::Status CheckIsText(const std::string& from, absl::string_view text) {
  DP_ASSIGN_OR_RETURN(const Format format, Recognize(from));
  std::string why;
  if (format != Format::kText && format != Format::kCsvFile) {
    why = NameOf(format);
  } else if (const size_t zero = text.find('\0'); zero != absl::string_view::npos) {
    why = absl::StrCat("a file with a byte 0 at place ", zero);
  }
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      from, " is ", why, ", and no text; only texts become tokens. Write its text to a ",
      "file first, in UTF-8: a text in UTF-16 by iconv -f UTF-16 -t UTF-8"));
}

absl::StatusOr<std::vector<uint16_t>> TokensOf(absl::string_view text,
                                               const ConvertOptions& options) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  if (options.bpe_vocabulary.empty()) {
    return std::vector<uint16_t>(bytes, bytes + text.size());
  }
  DP_ASSIGN_OR_RETURN(const BpeTokenizer encoding,
                      OpenBpeTokenizer(options.bpe_vocabulary, options.bpe_merges));
  return encoding.Encode(text);
}

absl::Status WriteTokens(const std::string& from, const std::string& to,
                         const ConvertOptions& options) {
  DP_ASSIGN_OR_RETURN(const FileBytes contents, OpenFile(from));
  const absl::string_view text(reinterpret_cast<const char*>(contents.bytes.data()),
                               contents.bytes.size());
  DP_RETURN_IF_ERROR(CheckIsText(from, text));
  DP_ASSIGN_OR_RETURN(const std::vector<uint16_t> tokens, TokensOf(text, options));
  NewFile file(to);
  for (const uint16_t token : tokens) {
    const uint8_t bytes[] = {static_cast<uint8_t>(token), static_cast<uint8_t>(token >> 8)};
    file.Write(bytes, 2);
  }
  return file.Finish();
}

}  // namespace

absl::Status Convert(const std::string& from, const std::string& to,
                     const ConvertOptions& options) {
  DP_RETURN_IF_ERROR(CheckIsNew(to));
  const bool encodes = !options.bpe_vocabulary.empty() || !options.bpe_merges.empty();
  if (encodes && (options.bpe_vocabulary.empty() || options.bpe_merges.empty())) {
    return absl::InvalidArgumentError(
        "a byte-pair encoding has two files; give both --bpe-vocab and --bpe-merges");
  }
  if (options.to_tokens || absl::EndsWith(to, ".bin")) return WriteTokens(from, to, options);
  if (encodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(to, ": only tokens are encoded; give a name that ends in .bin"));
  }
  const bool npy = absl::EndsWith(to, ".npy");
  if (!npy && !absl::StrContains(to, "-idx")) {
    return absl::InvalidArgumentError(
        absl::StrCat(to,
                     ": give a name that ends in .npy, in -idxN-TYPE such as "
                     "train-images-idx3-ubyte, or in .bin for tokens"));
  }
  DP_ASSIGN_OR_RETURN(const Rows rows, ReadAnyRows(from));
  std::string header = NpyHeaderOf(rows);
  if (!npy) {
    DP_ASSIGN_OR_RETURN(header, IdxHeaderOf(rows, to));
  }
  NewFile file(to);
  file.Write(header);
  WriteRows(rows, !npy && !rows.big_endian() && SizeOf(rows.type()) > 1, file);
  return file.Finish();
}

}  // namespace dp::data
