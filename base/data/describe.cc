#include "base/data/describe.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/data/cifar_file.h"
#include "base/data/csv_file.h"
#include "base/data/file_bytes.h"
#include "base/data/idx_file.h"
#include "base/data/image_codec.h"
#include "base/data/image_folder.h"
#include "base/data/npy_file.h"
#include "base/data/statistics.h"
#include "base/data/zip_member.h"
#include "base/status.h"

namespace dp::data {
namespace {

constexpr int64_t kImagesMeasuredMax = 1000;
// Longer lists of means and deviations help nobody who writes a job file.
constexpr size_t kChannelsWrittenMax = 16;
constexpr int64_t kTokenHeaderBytes = 1024;
constexpr int64_t kImageEdge = 224;

// A text of YAML in quotes. Control characters would be lost between single quotes.
std::string Quoted(const std::string& text) {
  const auto is_control = [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); };
  if (std::none_of(text.begin(), text.end(), is_control)) {
    return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "''"}}), "'");
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (is_control(c)) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      absl::StrAppend(&quoted, c == '"' || c == '\\' ? "\\" : "", std::string(1, c));
    }
  }
  return quoted + "\"";
}

// A path as a job file has it: in quotes if YAML could read it as something else.
std::string PathText(const std::string& path) {
  const auto is_plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/._-+", c);
  };
  const bool plain = absl::StartsWith(path, "/") && std::all_of(path.begin(), path.end(), is_plain);
  return plain ? path : Quoted(path);
}

std::string ListOf(const std::vector<double>& numbers) {
  const auto text = [](std::string* out, double number) {
    absl::StrAppend(out, absl::StrFormat("%.4g", number));
  };
  if (numbers.size() == 1) return absl::StrFormat("%.4g", numbers[0]);
  return absl::StrCat("[", absl::StrJoin(numbers, ", ", text), "]");
}

// A mapping to mean 0 and deviation 1, where it is short and no deviation is zero.
void AddNormalization(Description& description) {
  const auto& std = description.std;
  const bool constant =
      std::any_of(std.begin(), std.end(), [](double each) { return !(each > 0); });
  if (std.empty() || constant || std.size() > kChannelsWrittenMax) return;
  description.job_lines.push_back("mean: " + ListOf(description.mean));
  description.job_lines.push_back("std: " + ListOf(description.std));
}

// `file`: where the rows lie, for errors.
absl::Status TakeRows(const Rows& rows, const std::string& file, Description& description) {
  description.element_type = std::string(NameOf(rows.type()));
  description.samples = rows.size();
  description.shape = rows.shape();
  DP_ASSIGN_OR_RETURN(const ChannelSums sums, SumsOf(rows, file));
  description.mean = sums.mean();
  description.std = sums.std();
  description.measured = rows.size();
  return absl::OkStatus();
}

void TakeClasses(const Labels& labels, Description& description) {
  description.class_counts = ClassCounts(labels);
  for (size_t i = 0; i < description.class_counts.size(); ++i) {
    description.classes.push_back(absl::StrCat(i));
  }
}

absl::Status TakeSet(const SampleSet& set, Description& description) {
  DP_RETURN_IF_ERROR(TakeRows(set.inputs, set.inputs_name, description));
  TakeClasses(set.labels, description);
  return absl::OkStatus();
}

// The samples of the test set; 0 where there is none. Training would refuse any other error.
absl::StatusOr<int64_t> CountOf(const absl::StatusOr<SampleSet>& test) {
  if (absl::IsNotFound(test.status())) return 0;
  DP_RETURN_IF_ERROR(test.status());
  return test->inputs.size();
}

void KeepSomeWithoutTest(Description& description) {
  if (description.test_samples == 0) description.job_lines.push_back("validation: 0.1");
}

absl::Status DescribeIdxDirectory(const std::string& path, Description& description) {
  DP_ASSIGN_OR_RETURN(const SampleSet train, ReadIdxSet(path, Split::kTrain));
  DP_RETURN_IF_ERROR(TakeSet(train, description));
  DP_ASSIGN_OR_RETURN(description.test_samples, CountOf(ReadIdxSet(path, Split::kTest)));
  description.job_lines = {"kind: images", "dir: " + PathText(path)};
  return absl::OkStatus();
}

absl::Status DescribeCifar(const std::string& path, Cifar kind, Description& description) {
  DP_ASSIGN_OR_RETURN(const SampleSet train, ReadCifarSet(path, kind, Split::kTrain));
  DP_RETURN_IF_ERROR(TakeSet(train, description));
  DP_ASSIGN_OR_RETURN(description.test_samples, CountOf(ReadCifarSet(path, kind, Split::kTest)));
  description.job_lines = {kind == Cifar::k10 ? "kind: cifar10" : "kind: cifar100",
                           "dir: " + PathText(path)};
  return absl::OkStatus();
}

// The channels of an image, one after another.
std::vector<float> PlanesOf(const Image& image) {
  const int64_t pixels = image.rows * image.columns;
  std::vector<float> planes(image.bytes.size());
  for (int64_t i = 0; i < pixels; ++i) {
    for (int64_t channel = 0; channel < image.channels; ++channel) {
      planes[channel * pixels + i] = image.bytes[i * image.channels + channel];
    }
  }
  return planes;
}

absl::Status DescribeFolder(const std::string& path, Description& description) {
  DP_ASSIGN_OR_RETURN(ImageFolder train, ListImageFolder(path, Split::kTrain));
  const auto samples = static_cast<int64_t>(train.files.size());
  if (HasImageFolder(path, Split::kTest)) {
    DP_ASSIGN_OR_RETURN(const ImageFolder test, ListImageFolder(path, Split::kTest));
    description.test_samples = static_cast<int64_t>(test.files.size());
  }
  description.samples = samples;
  description.element_type = "uint8";
  description.class_counts.resize(train.classes.size());
  for (const int32_t label : train.labels) ++description.class_counts[label];
  description.classes = std::move(train.classes);
  description.measured = std::min(samples, kImagesMeasuredMax);
  ChannelSums sums(3);
  for (int64_t i = 0; i < description.measured; ++i) {
    const std::string& file = train.files[i * samples / description.measured];
    DP_ASSIGN_OR_RETURN(const Image image, ReadImage(file, 3));
    sums.Add(PlanesOf(image), true);
  }
  description.mean = sums.mean();
  description.std = sums.std();
  description.shape = {3, kImageEdge, kImageEdge};
  description.job_lines = {"kind: imageFolder", "dir: " + PathText(path),
                           absl::StrCat("size: [", kImageEdge, ", ", kImageEdge, "]")};
  return absl::OkStatus();
}

// Whole numbers, one for each sample, are classes rather than inputs.
bool DescribeLabels(const std::string& path, const Rows& rows, Description& description) {
  if (rows.shape() != model::Shape{1} || IsFloat(rows.type())) return false;
  const absl::StatusOr<Labels> labels = LabelsFrom(rows, path);
  if (!labels.ok()) return false;
  description.element_type = std::string(NameOf(rows.type()));
  description.samples = rows.size();
  description.shape = rows.shape();
  TakeClasses(*labels, description);
  description.job_lines = {
      "kind: arrays", absl::StrCat("arrays: {train: {inputs: /INPUTS.npy, labels: ", PathText(path),
                                   "}}  # put the path of the inputs here")};
  return true;
}

absl::Status DescribeArray(const std::string& path, Description& description) {
  DP_ASSIGN_OR_RETURN(const Rows rows, ReadArrayInputs({.inputs = path}));
  if (DescribeLabels(path, rows, description)) return absl::OkStatus();
  DP_RETURN_IF_ERROR(TakeRows(rows, path, description));
  description.job_lines = {
      "kind: arrays", absl::StrCat("arrays: {train: {inputs: ", PathText(path),
                                   ", labels: /LABELS.npy}}  # put the path of the labels here")};
  return absl::OkStatus();
}

// An archive's array under one of these names; empty if there is none.
std::string FindArray(const std::string& path, const std::vector<std::string>& members,
                      std::initializer_list<const char*> names, const std::string& ending) {
  for (const char* name : names) {
    const std::string array = name + ending;
    if (std::find(members.begin(), members.end(), array + ".npy") != members.end()) {
      return absl::StrCat(path, "#", array);
    }
  }
  return "";
}

// The inputs and labels of a part, under the names that NumPy's users give them.
std::optional<ArrayFiles> ArraysOf(const std::string& path, const std::vector<std::string>& members,
                                   const std::string& ending) {
  ArrayFiles files;
  files.inputs = FindArray(path, members, {"x", "X", "inputs", "images", "data"}, ending);
  files.labels = FindArray(path, members, {"y", "Y", "labels", "targets"}, ending);
  if (files.inputs.empty() || files.labels.empty()) return std::nullopt;
  return files;
}

std::string LineOf(const std::string& part, const ArrayFiles& files) {
  return absl::StrCat(part, ": {inputs: ", PathText(files.inputs),
                      ", labels: ", PathText(files.labels), "}");
}

absl::Status DescribeArchive(const std::string& path, Description& description) {
  DP_ASSIGN_OR_RETURN(const FileBytes file, OpenFile(path));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> members, ZipMemberNames(file));
  std::optional<ArrayFiles> train = ArraysOf(path, members, "_train");
  if (!train) train = ArraysOf(path, members, "");
  if (!train) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has no arrays x_train and y_train, or x and y; inspect one array, as ", path, "#",
        members.empty() ? "NAME" : absl::StripSuffix(members[0], ".npy")));
  }
  DP_ASSIGN_OR_RETURN(const SampleSet set, ReadArraySet(*train));
  DP_RETURN_IF_ERROR(TakeSet(set, description));
  std::string line = "arrays: {" + LineOf("train", *train);
  if (const auto test = ArraysOf(path, members, "_test")) {
    DP_ASSIGN_OR_RETURN(description.test_samples, CountOf(ReadArraySet(*test)));
    line += ", " + LineOf("test", *test);
  }
  description.job_lines = {"kind: arrays", line + "}"};
  return absl::OkStatus();
}

// The column whose name says that it is the label; otherwise the last one.
std::string LabelColumn(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    const std::string name = absl::AsciiStrToLower(column);
    if (name == "label" || name == "class" || name == "target" || name == "y") return column;
  }
  return columns.back();
}

absl::Status DescribeTable(const std::string& path, Description& description) {
  CsvFiles files{.paths = {path}};
  DP_ASSIGN_OR_RETURN(files.delimiter, FindCsvDelimiter(path));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> columns, ReadCsvColumns(files));
  files.labels = LabelColumn(columns);
  absl::StatusOr<SampleSet> set = ReadCsvSet(files);
  const bool classes = set.ok();
  if (!classes) {
    files.targets = {std::exchange(files.labels, "")};
    set = ReadCsvSet(files);
  }
  DP_RETURN_IF_ERROR(set.status());
  DP_RETURN_IF_ERROR(TakeSet(*set, description));
  std::string line = classes ? absl::StrCat("csv: {labels: ", Quoted(files.labels))
                             : absl::StrCat("csv: {targets: [", Quoted(files.targets[0]), "]");
  if (files.delimiter != ',') {
    const std::string shown = files.delimiter == '\t' ? "\\t" : std::string(1, files.delimiter);
    absl::StrAppend(&line, ", delimiter: \"", shown, "\"");
  }
  description.job_lines = {"kind: csv", absl::StrCat("train: [", PathText(path), "]"), line + "}"};
  return absl::OkStatus();
}

// Why a file is no text, though no format with samples was recognized; empty if it is one. Training
// would take any bytes.
std::string WhyNoText(const std::string& path, absl::string_view text) {
  if (text.empty()) return "is empty";
  if (absl::StartsWith(text, "\x89PNG") || absl::StartsWith(text, "\xff\xd8\xff")) {
    return "is an image; put it into a folder of its class, as DIR/train/CLASS, and inspect DIR";
  }
  // The header's size as 8 bytes, then the header in JSON.
  if (text.size() > 8 && text[8] == '{' && text.substr(4, 4) == absl::string_view("\0\0\0\0", 4)) {
    return "is a file of weights (safetensors), and no data set; train.init.weights reads it";
  }
  if (absl::EndsWith(path, ".csv") || absl::EndsWith(path, ".tsv")) {
    return "has no line of numbers, divided by comma, semicolon or tab";
  }
  const size_t zero = text.find('\0');
  if (zero == absl::string_view::npos) return "";
  return absl::StrCat("is no text, as byte ", zero, " is 0, and of no other known format");
}

absl::Status DescribeTokens(const std::string& path, Description& description) {
  DP_ASSIGN_OR_RETURN(const FileBytes file, OpenFile(path));
  const auto size = static_cast<int64_t>(file.bytes.size());
  const bool tokens = description.format == Format::kTokenFile;
  const absl::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
  std::string wrong = tokens ? "" : WhyNoText(path, text);
  if (tokens && (size == 0 || size % 2 != 0)) {
    wrong = absl::StrCat("has ", size, " bytes; tokens have two each");
  }
  if (!wrong.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", wrong));
  const bool header = tokens && size >= kTokenHeaderBytes && file.bytes[0] == 0x88 &&
                      file.bytes[1] == 0xd8 && file.bytes[2] == 0x34 && file.bytes[3] == 0x01;
  description.samples = tokens ? (header ? size - kTokenHeaderBytes : size) / 2 : size;
  description.job_lines = {tokens ? "kind: tokens" : "kind: text",
                           absl::StrCat("train: [", PathText(path), "]"), "context: 128"};
  return absl::OkStatus();
}

absl::Status DescribeAs(const std::string& path, Description& description) {
  switch (description.format) {
    case Format::kIdxDirectory:
      return DescribeIdxDirectory(path, description);
    case Format::kCifar10:
      return DescribeCifar(path, Cifar::k10, description);
    case Format::kCifar100:
      return DescribeCifar(path, Cifar::k100, description);
    case Format::kImageFolder:
      return DescribeFolder(path, description);
    case Format::kNpyFile:
      return DescribeArray(path, description);
    case Format::kNpzFile:
      return DescribeArchive(path, description);
    case Format::kCsvFile:
      return DescribeTable(path, description);
    case Format::kIdxFile: {
      DP_ASSIGN_OR_RETURN(const Rows rows, ReadIdx(path));
      DP_RETURN_IF_ERROR(TakeRows(rows, path, description));
      description.job_lines = {"kind: images",
                               "dir: " + PathText(std::filesystem::path(path).parent_path())};
      return absl::OkStatus();
    }
    case Format::kTokenFile:
    case Format::kText:
      return DescribeTokens(path, description);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Description> Describe(const std::string& path) {
  Description description;
  if (absl::StrContains(path, "#")) {
    description.format = Format::kNpyFile;
  } else {
    DP_ASSIGN_OR_RETURN(description.format, Recognize(path));
  }
  DP_RETURN_IF_ERROR(DescribeAs(path, description));
  if (description.shape.empty()) return description;  // a text
  if (description.format != Format::kIdxFile) KeepSomeWithoutTest(description);
  AddNormalization(description);
  return description;
}

}  // namespace dp::data
