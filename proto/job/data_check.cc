#include "proto/job/data_check.h"

#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/data/sample_set.h"
#include "base/limits.h"

namespace dp {
namespace {

using Kinds = std::vector<std::string>;

const Kinds kAllKinds = {"images",      "cifar10",   "cifar100", "arrays", "csv",
                         "imageFolder", "synthetic", "text",     "tokens"};
const Kinds kTexts = {"text", "tokens"};
const Kinds kDirectories = {"images", "cifar10", "cifar100", "imageFolder"};
const Kinds kNumbers = {"images", "cifar10",     "cifar100", "arrays",
                        "csv",    "imageFolder", "synthetic"};
const Kinds kImages = {"images", "cifar10", "cifar100", "arrays", "imageFolder", "synthetic"};

constexpr int kImageEdgeMax = 8192;  // pixels
constexpr int kPrefetchThreadsMax = 256;
constexpr int64_t kSamplesMax = int64_t{1} << 31;
constexpr int kSampleAxesMax = 8;

bool IsIn(const Kinds& kinds, const v1::DataSpec& data) {
  return absl::c_linear_search(kinds, data.kind());
}

// Checks the section `train.data`.
class DataCheck : private FieldCheck {
 public:
  DataCheck(const v1::DataSpec& data, const FieldOrigins& origins)
      : FieldCheck(origins), data_(data) {}

  absl::Status Run() {
    OneOf("train.data.kind", data_.kind(), kAllKinds);
    if (!first().ok()) return first();
    RefuseOthers();
    Between("train.data.prefetchThreads", data_.prefetch_threads(), 0, kPrefetchThreadsMax);
    if (IsText(data_)) {
      CheckText();
    } else {
      CheckNumbers();
    }
    return first();
  }

 private:
  // Rejects fields of data of another kind. Zeroes are no mistake: --dry-run shows them.
  void RefuseOthers() {
    const auto is_set = [](double value) { return value != 0; };
    Only(kDirectories, "dir", !data_.dir().empty());
    Only(kNumbers, "mean", absl::c_any_of(data_.mean(), is_set));
    Only(kNumbers, "std", !data_.std().empty());
    Only(kNumbers, "classes", data_.classes() != 0);
    Only(kNumbers, "validation", data_.validation() != 0);
    Only({"text", "tokens", "csv"}, "train", !data_.train().empty());
    Only({"text", "tokens", "csv"}, "test", !data_.test().empty());
    Only(kTexts, "context", data_.context() != 0);
    Only(kTexts, "vocabulary", data_.vocabulary() != 0);
    Only({"arrays"}, "arrays", data_.has_arrays());
    Only({"csv"}, "csv", data_.has_csv());
    Only({"imageFolder"}, "size", !data_.size().empty());
    Only({"imageFolder"}, "channels", data_.channels() != 0);
    Only(kImages, "augment", data_.has_augment());
    Only({"synthetic"}, "synthetic", data_.has_synthetic());
    Only({"text"}, "bpe", data_.has_bpe());
  }

  void Only(const Kinds& kinds, const std::string& field, bool said) {
    if (!said || IsIn(kinds, data_)) return;
    const std::string path = "train.data." + field;
    Fail(path, absl::StrCat(path, " does not go with kind: ", data_.kind(), "; leave it out"));
  }

  void CheckNumbers() {
    if (IsIn(kDirectories, data_)) CheckDir();
    if (data_.kind() == "arrays") CheckArrays();
    if (data_.kind() == "csv") CheckCsv();
    if (data_.kind() == "imageFolder") CheckFolder();
    if (data_.kind() == "synthetic") CheckSynthetic();
    Between("train.data.classes", data_.classes(), 0, data::kClassesMax);
    if (!(data_.validation() >= 0 && data_.validation() < 1))
      Fail("train.data.validation",
           Wrong("train.data.validation", data_.validation(), "at least 0 and below 1"));
    for (int i = 0; i < data_.std_size(); ++i) {
      const std::string path = "train.data.std";
      Above(data_.std_size() == 1 ? path : absl::StrCat(path, "[", i, "]"), data_.std(i), 0);
    }
    if (data_.has_augment()) CheckAugment();
    if (HasTargets(data_) && data_.classes() != 0)
      Fail("train.data.classes",
           "train.data.classes does not go with targets, which are numbers; leave it out");
  }

  void CheckDir() {
    if (data_.dir().empty()) {
      const std::string what = data_.kind() == "images"        ? "IDX files"
                               : data_.kind() == "imageFolder" ? "folders of images"
                                                               : "binary files";
      Fail("train.data.dir",
           absl::StrCat("train.data.dir is missing; give the directory of the ", what));
    }
    Absolute("train.data.dir", data_.dir());
  }

  // An input that is also an answer would teach nothing.
  void CheckColumns(const v1::CsvSpec& csv) {
    std::set<std::string> outputs;
    if (!csv.labels().empty()) outputs.insert(csv.labels());
    for (const std::string& target : csv.targets()) {
      if (!outputs.insert(target).second) Twice("train.data.csv.targets", target);
    }
    std::set<std::string> inputs;
    for (const std::string& input : csv.inputs()) {
      if (outputs.contains(input))
        Fail("train.data.csv.inputs", absl::StrCat("train.data.csv.inputs has ", Quoted(input),
                                                   ", which is to be predicted; leave it out"));
      if (!inputs.insert(input).second) Twice("train.data.csv.inputs", input);
    }
  }
  void Twice(const std::string& path, const std::string& column) {
    Fail(path, absl::StrCat(path, " has ", Quoted(column), " twice; keep one"));
  }

  void CheckArrays() {
    CheckArrayFiles("train.data.arrays.train", data_.arrays().train());
    const std::string test = "train.data.arrays.test";
    CheckTestSet("train.data.arrays", "train.data.arrays.test", data_.arrays().has_test());
    if (!data_.arrays().has_test()) return;
    CheckArrayFiles(test, data_.arrays().test());
    if (data_.arrays().train().targets().empty() != data_.arrays().test().targets().empty())
      Fail(test, absl::StrCat(test,
                              " has labels where train has targets, or targets where train "
                              "has labels; give both the same"));
  }

  void CheckArrayFiles(const std::string& path, const v1::ArrayFilesSpec& files) {
    if (files.inputs().empty())
      Fail("train.data.arrays", absl::StrCat(path,
                                             ".inputs is missing; give a file, as /d/x.npy, "
                                             "or an array of an archive, as /d/a.npz#x"));
    CheckOutputs("train.data.arrays", path, !files.labels().empty(), !files.targets().empty());
    Absolute(path + ".inputs", files.inputs());
    Absolute(path + ".labels", files.labels());
    Absolute(path + ".targets", files.targets());
  }

  void CheckOutputs(const std::string& place, const std::string& path, bool labels, bool targets) {
    if (labels == targets)
      Fail(place, absl::StrCat(path, " has ",
                               labels ? "both labels and targets"
                                      : "neither labels "
                                        "nor targets",
                               "; give labels for classes, or targets for numbers to predict"));
  }

  // Without a test set, part of the training set takes its place.
  void CheckTestSet(const std::string& place, const std::string& path, bool given) {
    if (!given && data_.validation() == 0)
      Fail(place, absl::StrCat(path,
                               " is missing; give it, or train.data.validation, as 0.1, to "
                               "keep a part of the training set for the test"));
    if (given && data_.validation() != 0)
      Fail("train.data.validation",
           absl::StrCat("train.data.validation does not go with ", path, "; keep one"));
  }

  void CheckCsv() {
    if (data_.train().empty())
      Fail("train.data", "train.data.train is missing; give a list of files to train on");
    CheckFiles("train.data.train", data_.train());
    CheckFiles("train.data.test", data_.test());
    CheckTestSet("train.data", "train.data.test", !data_.test().empty());
    const v1::CsvSpec& csv = data_.csv();
    CheckOutputs("train.data", "train.data.csv", !csv.labels().empty(), !csv.targets().empty());
    CheckColumns(csv);
    const std::string& delimiter = csv.delimiter();
    if (delimiter.size() != 1 || delimiter == "\n" || delimiter == "\"")
      Fail("train.data.csv.delimiter",
           "train.data.csv.delimiter is no single character; expected one, as \",\" or \";\"");
  }

  void CheckFolder() {
    if (data_.size_size() != 2)
      Fail("train.data", absl::StrCat("train.data.size has ", data_.size_size(),
                                      " numbers; expected rows and columns, as [224, 224]"));
    for (int i = 0; i < data_.size_size(); ++i)
      Between(absl::StrCat("train.data.size[", i, "]"), data_.size(i), 1, kImageEdgeMax);
    if (data_.channels() != 1 && data_.channels() != 3)
      Fail("train.data.channels", Wrong("train.data.channels", data_.channels(),
                                        "1 for gray, or 3 for red, green and blue"));
  }

  void CheckSynthetic() {
    const v1::SyntheticSpec& synthetic = data_.synthetic();
    const std::string path = "train.data.synthetic";
    if (synthetic.shape().empty() || synthetic.shape_size() > kSampleAxesMax)
      Fail("train.data", absl::StrCat(path, ".shape has ", synthetic.shape_size(),
                                      " axes; expected 1 to ", kSampleAxesMax, ", as [1, 28, 28]"));
    int64_t elements = 1;
    for (int i = 0; i < synthetic.shape_size(); ++i) {
      const std::string each = absl::StrCat(path, ".shape[", i, "]");
      Between(each, synthetic.shape(i), 1, kSampleElementsMax);
      elements *= std::max(synthetic.shape(i), 1);
      if (elements > kSampleElementsMax)
        return Fail(each, absl::StrCat(path, ".shape has more than ", kSampleElementsMax,
                                       " elements; make it smaller"));
    }
    Between(path + ".samples", synthetic.samples(), 1, kSamplesMax);
    Between(path + ".testSamples", synthetic.test_samples(), 1, kSamplesMax);
    if (data_.classes() < 1)
      Fail("train.data",
           "train.data.classes is missing; give the classes of the synthetic samples, as 10");
  }

  void CheckAugment() {
    const v1::AugmentSpec& augment = data_.augment();
    const std::string path = "train.data.augment";
    if (augment.has_crop())
      Between(path + ".crop.padding", augment.crop().padding(), 1, kImageEdgeMax);
    if (!augment.has_resized_crop()) return;
    const double area = augment.resized_crop().area_min();
    if (!(area > 0 && area <= 1))
      Fail(path + ".resizedCrop",
           Wrong(path + ".resizedCrop.areaMin", area, "more than 0, at most 1"));
    if (data_.kind() != "imageFolder")
      Fail(path + ".resizedCrop",
           absl::StrCat(path, ".resizedCrop needs kind: imageFolder; use ", path, ".crop"));
  }

  void CheckText() {
    if (data_.train().empty())
      Fail("train.data", "train.data.train is missing; give a list of files to train on");
    CheckFiles("train.data.train", data_.train());
    CheckFiles("train.data.test", data_.test());
    if (!Given("train.data.context"))
      Fail("train.data", "train.data.context is missing; give the tokens of a sample, as 128");
    Between("train.data.context", data_.context(), 1, kContextMax);
    Between("train.data.vocabulary", data_.vocabulary(), 1, kVocabularyMax);
    if (data_.has_bpe()) CheckBpe();
  }

  void CheckBpe() {
    const std::string path = "train.data.bpe";
    if (data_.bpe().vocab().empty() || data_.bpe().merges().empty())
      Fail(path, absl::StrCat(path,
                              " has not both files; give vocab and merges, as GPT-2's "
                              "vocab.json and merges.txt"));
    Absolute(path + ".vocab", data_.bpe().vocab());
    Absolute(path + ".merges", data_.bpe().merges());
  }

  void CheckFiles(const std::string& list, const auto& paths) {
    for (int i = 0; i < paths.size(); ++i) {
      const std::string path = absl::StrCat(list, "[", i, "]");
      if (paths[i].empty()) Fail(path, absl::StrCat(path, " is empty; give the path of a file"));
      Absolute(path, paths[i]);
    }
  }

  static constexpr int kSampleElementsMax = 1 << 28;

  const v1::DataSpec& data_;
};

}  // namespace

bool IsText(const v1::DataSpec& data) { return IsIn(kTexts, data); }

bool HasTargets(const v1::DataSpec& data) {
  return !data.arrays().train().targets().empty() || !data.csv().targets().empty();
}

absl::Status CheckDataSection(const v1::DataSpec& data, const FieldOrigins& origins) {
  return DataCheck(data, origins).Run();
}

}  // namespace dp
