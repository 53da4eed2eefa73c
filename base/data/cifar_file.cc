#include "base/data/cifar_file.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/data/file_bytes.h"
#include "base/status.h"

namespace dp::data {
namespace {

constexpr int64_t kCifarImageBytes = 3 * 32 * 32;
// More than any set in this format.
constexpr int kCifarBatchesMax = 1000;

int ClassesOf(Cifar kind) { return kind == Cifar::k10 ? 10 : 100; }

std::vector<std::string> CifarPaths(const std::string& dir, Cifar kind, Split split) {
  if (kind == Cifar::k100) return {dir + (split == Split::kTrain ? "/train.bin" : "/test.bin")};
  if (split == Split::kTest) return {dir + "/test_batch.bin"};
  // All up to the last one that is there, so that a gap is found when its file is opened.
  std::vector<std::string> files, up_to_last;
  for (int i = 1; i <= kCifarBatchesMax; ++i) {
    std::error_code error;
    files.push_back(absl::StrCat(dir, "/data_batch_", i, ".bin"));
    if (i == 1 || std::filesystem::exists(files.back(), error)) up_to_last = files;
  }
  return up_to_last;
}

// `label_at` and `stride`: the place of the first label, and the distance to the next.
absl::Status CheckLabels(const std::string& path, Cifar kind, absl::Span<const uint8_t> bytes,
                         int64_t label_at, int64_t stride) {
  for (int64_t record = 0; record * stride < static_cast<int64_t>(bytes.size()); ++record) {
    const int label = bytes[record * stride + label_at];
    if (label < ClassesOf(kind)) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": record ", record, " has label ", label,
                                                   "; CIFAR-", ClassesOf(kind), " has 0 to ",
                                                   ClassesOf(kind) - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SampleSet> ReadCifarSet(const std::string& dir, Cifar kind, Split split) {
  DP_RETURN_IF_ERROR(CheckDataDir(dir));
  const int64_t labels_each = kind == Cifar::k10 ? 1 : 2;
  const int64_t stride = labels_each + kCifarImageBytes;
  SampleSet set{.inputs = Rows(ElementType::kUint8, false, {3, 32, 32})};
  std::vector<uint8_t> labels;
  for (const std::string& path : CifarPaths(dir, kind, split)) {
    DP_ASSIGN_OR_RETURN(FileBytes file, OpenFile(path));
    const auto size = static_cast<int64_t>(file.bytes.size());
    if (size == 0 || size % stride != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": has ", size, " bytes; expected records of ", stride,
                       " bytes, as CIFAR-", ClassesOf(kind), "'s binary version has"));
    }
    DP_RETURN_IF_ERROR(CheckLabels(path, kind, file.bytes, labels_each - 1, stride));
    for (int64_t at = labels_each - 1; at < size; at += stride) labels.push_back(file.bytes[at]);
    const uint8_t* const first = file.bytes.data() + labels_each;
    set.inputs.Append({.first = first, .stride = stride, .count = size / stride},
                      std::move(file.owner));
    set.labels_name = path;
  }
  set.labels = Labels(std::move(labels));
  return set;
}

}  // namespace dp::data
