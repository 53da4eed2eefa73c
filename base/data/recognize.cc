#include "base/data/recognize.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/data/csv_line.h"
#include "base/data/file_bytes.h"
#include "base/data/image_folder.h"
#include "base/status.h"

namespace dp::data {
namespace {

constexpr size_t kRecognizedBytes = 4096;
constexpr absl::string_view kTokensMagic("\x88\xd8\x34\x01", 4);  // 20240520, as llm.c writes it

bool ExistsIn(const std::string& dir, const char* name) {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(dir, "/", name), error);
}

bool HasIdxFiles(const std::string& dir) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    if (absl::StrContains(it->path().filename().string(), "-images-idx")) return true;
  }
  return false;
}

absl::StatusOr<Format> RecognizeDirectory(const std::string& dir) {
  std::error_code error;
  (void)std::filesystem::directory_iterator(dir, error);  // only to see whether it can be read
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot read ", dir));
  if (ExistsIn(dir, "data_batch_1.bin")) return Format::kCifar10;
  if (ExistsIn(dir, "train.bin") && ExistsIn(dir, "test.bin")) return Format::kCifar100;
  if (HasIdxFiles(dir)) return Format::kIdxDirectory;
  if (HasImageFolder(dir, Split::kTrain)) return Format::kImageFolder;
  return absl::InvalidArgumentError(absl::StrCat(
      dir,
      ": has neither IDX files, nor CIFAR's binary files, nor a folder train with a folder of "
      "images for each class",
      LooseClassesRemedy(dir)));
}

bool IsIdx(absl::string_view begin) {
  constexpr absl::string_view kTypes("\x08\x09\x0b\x0c\x0d\x0e");
  return begin.size() >= 4 && begin[0] == 0 && begin[1] == 0 &&
         absl::StrContains(kTypes, begin.substr(2, 1)) && begin[3] > 0 && begin[3] <= 8;
}

bool IsCsvNumber(const std::string& field) {
  double value = 0;
  return absl::SimpleAtod(field, &value);
}

// Whether the second line, or the only one, has numbers in several columns, separated as
// `delimiter` says, and as many fields as the first one.
bool IsTable(absl::string_view begin, char delimiter) {
  int64_t number = 0;
  std::vector<std::string> first, second;
  if (!SplitCsvLine(TakeCsvLine(begin, number), delimiter, first) || first.size() < 2) return false;
  const absl::string_view line = TakeCsvLine(begin, number);
  if (line.empty()) return std::all_of(first.begin(), first.end(), IsCsvNumber);
  return SplitCsvLine(line, delimiter, second) && second.size() == first.size() &&
         std::any_of(second.begin(), second.end(), IsCsvNumber);
}

}  // namespace

const char* NameOf(Format format) {
  switch (format) {
    case Format::kIdxDirectory:
      return "IDX files";
    case Format::kCifar10:
      return "CIFAR-10, binary version";
    case Format::kCifar100:
      return "CIFAR-100, binary version";
    case Format::kImageFolder:
      return "folder of images";
    case Format::kIdxFile:
      return "IDX file";
    case Format::kNpyFile:
      return "NPY file";
    case Format::kNpzFile:
      return "NPZ archive";
    case Format::kCsvFile:
      return "CSV";
    case Format::kTokenFile:
      return "tokens of 16 bits";
    case Format::kText:
      return "text";
  }
  return "";
}

absl::StatusOr<Format> Recognize(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return RecognizeDirectory(path);
  DP_ASSIGN_OR_RETURN(const FileBytes file, OpenFile(path, kRecognizedBytes));
  absl::string_view begin(reinterpret_cast<const char*>(file.bytes.data()),
                          std::min(file.bytes.size(), kRecognizedBytes));
  if (IsIdx(begin)) return Format::kIdxFile;
  if (absl::StartsWith(begin, "\x93NUMPY")) return Format::kNpyFile;
  if (absl::StartsWith(begin, "PK\x03\x04")) return Format::kNpzFile;
  if (absl::StartsWith(begin, kTokensMagic) || absl::EndsWith(path, ".bin")) {
    return Format::kTokenFile;
  }
  SkipByteOrderMark(begin);
  for (const char delimiter : {',', ';', '\t'}) {
    if (IsTable(begin, delimiter)) return Format::kCsvFile;
  }
  return Format::kText;
}

}  // namespace dp::data
