#include "base/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/data/file_bytes.h"
#include "base/status.h"

namespace dp::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageEndings[] = {".png", ".jpg", ".jpeg"};
// torchvision reads these; to leave them out silently would change a set.
constexpr const char* kOtherEndings[] = {".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp"};

bool EndsInOneOf(const fs::path& path, absl::Span<const char* const> endings) {
  const std::string ending = absl::AsciiStrToLower(path.extension().string());
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

std::vector<std::string> FoldersOf(Split split) {
  if (split == Split::kTrain) return {"train"};
  return {"test", "val"};
}

// The folder of a part; empty if there is none.
std::string PartFolder(const std::string& dir, Split split) {
  std::error_code error;
  for (const std::string& name : FoldersOf(split)) {
    std::string path = absl::StrCat(dir, "/", name);
    if (fs::is_directory(path, error)) return path;
  }
  return "";
}

// Entries in ascending order of their names.
absl::StatusOr<std::vector<fs::path>> Entries(const fs::path& dir) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot read ", dir.string()));
  }
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    return a.filename().native() < b.filename().native();
  });
  return entries;
}

constexpr int kFolderDepthMax = 16;

// The images of a folder itself, then those of its folders, as os.walk gives them.
absl::Status AddImages(const fs::path& dir, int depth, std::vector<std::string>& files) {
  if (depth > kFolderDepthMax) {
    return absl::InvalidArgumentError(absl::StrCat(dir.string(), ": folders lie more than ",
                                                   kFolderDepthMax, " deep; flatten them"));
  }
  DP_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, Entries(dir));
  std::error_code error;
  for (const fs::path& entry : entries) {
    if (EndsInOneOf(entry, kOtherEndings)) {
      return absl::InvalidArgumentError(absl::StrCat(
          entry.string(), ": only PNG and JPEG images are read; convert it, or move it away"));
    }
    if (EndsInOneOf(entry, kImageEndings) && !fs::is_directory(entry, error)) {
      files.push_back(entry.string());
    }
  }
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry, error)) DP_RETURN_IF_ERROR(AddImages(entry, depth + 1, files));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ClassNames(const std::string& dir) {
  DP_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, Entries(dir));
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::path& entry : entries) {
    if (fs::is_directory(entry, error)) names.push_back(entry.filename().string());
  }
  if (!names.empty()) return names;
  return absl::InvalidArgumentError(
      absl::StrCat(dir, ": has no folders; put the images of each class into a folder of its own"));
}

absl::Status AddClass(const std::string& part, const std::string& name, int32_t label,
                      ImageFolder& folder) {
  const size_t before = folder.files.size();
  const std::string dir = absl::StrCat(part, "/", name);
  DP_RETURN_IF_ERROR(AddImages(dir, 0, folder.files));
  if (folder.files.size() == before) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": has no PNG or JPEG image; remove the folder, or add images"));
  }
  folder.labels.resize(folder.files.size(), label);
  return absl::OkStatus();
}

}  // namespace

std::string LooseClassesRemedy(const std::string& dir) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    std::error_code closed;
    for (fs::directory_iterator in(it->path(), closed), last; !closed && in != last;
         in.increment(closed)) {
      if (!EndsInOneOf(in->path(), kImageEndings)) continue;
      return absl::StrCat("; if its folders are classes, as ", it->path().filename().string(),
                          ", move them into ", dir, "/train");
    }
  }
  return "";
}

bool HasImageFolder(const std::string& dir, Split split) { return !PartFolder(dir, split).empty(); }

absl::StatusOr<std::vector<std::string>> ListClasses(const std::string& dir) {
  return ClassNames(dir + "/train");
}

absl::StatusOr<ImageFolder> ListImageFolder(const std::string& dir, Split split) {
  const std::string train = PartFolder(dir, Split::kTrain);
  const std::string part = PartFolder(dir, split);
  if (train.empty() || part.empty()) {
    DP_RETURN_IF_ERROR(CheckDataDir(dir));
    return absl::NotFoundError(absl::StrCat(
        "data directory ", dir, " has no folder ", train.empty() ? "train" : "test or val",
        "; it must be there on the host of every worker that runs a rank",
        train.empty() ? LooseClassesRemedy(dir) : ""));
  }
  ImageFolder folder;
  DP_ASSIGN_OR_RETURN(folder.classes, ClassNames(train));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> names, ClassNames(part));
  for (const std::string& name : names) {
    const auto found = std::lower_bound(folder.classes.begin(), folder.classes.end(), name);
    if (found == folder.classes.end() || *found != name) {
      return absl::InvalidArgumentError(
          absl::StrCat(part, "/", name, ": the training set has no such class"));
    }
    DP_RETURN_IF_ERROR(
        AddClass(part, name, static_cast<int32_t>(found - folder.classes.begin()), folder));
  }
  return folder;
}

}  // namespace dp::data
