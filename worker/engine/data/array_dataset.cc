#include "worker/engine/data/array_dataset.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// The value of each byte. The map is the same for all bytes of a channel, so 256 results are
// enough.
using ByteTable = std::array<float, 256>;

ByteTable TableOf(float mean, float std) {
  ByteTable table;
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = (static_cast<float>(byte) / 255.0f - mean) / std;
  }
  return table;
}

bool IsUniform(const std::vector<float>& list) {
  return std::all_of(list.begin(), list.end(), [&](float each) { return each == list[0]; });
}

// The largest label that is not ignored, and 1.
int ClassesOf(const data::Labels& labels, const ArrayDatasetOptions& options) {
  if (!options.ignored_label || labels.classes() != *options.ignored_label + 1) {
    return labels.classes();
  }
  int classes = 0;
  for (int64_t i = 0; i < labels.size(); ++i) {
    if (labels.at(i) != *options.ignored_label) classes = std::max(classes, labels.at(i) + 1);
  }
  return classes;
}

class ArrayDataset : public Dataset {
 public:
  ArrayDataset(data::SampleSet set, const ArrayDatasetOptions& options)
      : set_(std::move(set)),
        classes_(options.classes > 0 ? options.classes : ClassesOf(set_.labels, options)),
        normalization_(options.normalization) {
    if (set_.inputs.type() != data::ElementType::kUint8) return;
    uniform_ = IsUniform(normalization_.mean) && IsUniform(normalization_.std);
    const int64_t tables = uniform_ ? 1 : channels();
    for (int64_t i = 0; i < tables; ++i) tables_.push_back(TableOf(mean(i), std(i)));
  }

  int64_t size() const override { return set_.inputs.size(); }
  const model::Shape& sample_shape() const override { return set_.inputs.shape(); }
  int classes() const override { return classes_; }
  model::Shape target_shape() const override {
    return set_.targets ? set_.targets->shape() : model::Shape{};
  }

  Storage storage() const override {
    const auto images = set_.inputs.contiguous_bytes();
    if (!images || !uniform_ || set_.targets || set_.labels.bytes().empty()) return {};
    return StoredImages{*images, set_.labels.bytes(), mean(0), std(0)};
  }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const int64_t elements = set_.inputs.elements();
    DP_CHECK(images.size() >= samples.size() * elements);
    for (size_t i = 0; i < samples.size(); ++i) {
      DP_CHECK(samples[i] >= 0 && samples[i] < size());
      ReadInput(samples[i], images.subspan(i * elements, elements));
    }
    if (set_.targets) return;
    DP_CHECK(labels.size() >= samples.size());
    for (size_t i = 0; i < samples.size(); ++i) labels[i] = set_.labels.at(samples[i]);
  }

  absl::Status Read(const SampleRows& rows) const override {
    Gather(rows.samples, rows.inputs, rows.labels);
    if (IsFloat(set_.inputs.type())) DP_RETURN_IF_ERROR(CheckInputs(rows));
    if (!set_.targets) return absl::OkStatus();
    const int64_t elements = set_.targets->elements();
    DP_CHECK(rows.targets.size() >= rows.samples.size() * elements);
    for (size_t i = 0; i < rows.samples.size(); ++i) {
      const absl::Span<float> to = rows.targets.subspan(i * elements, elements);
      set_.targets->Read(rows.samples[i], to);
      DP_RETURN_IF_ERROR(data::CheckFinite(to, set_.targets_name, rows.samples[i]));
    }
    return absl::OkStatus();
  }

  // A label that is mistyped makes a model of many outputs that nothing ever trains.
  void TellGaps() const {
    std::vector<bool> seen(static_cast<size_t>(classes_));
    for (int64_t i = 0; i < set_.labels.size(); ++i) {
      const auto label = static_cast<size_t>(set_.labels.at(i));
      if (label < seen.size()) seen[label] = true;  // others are ignored, and no classes
    }
    const int64_t count = std::count(seen.begin(), seen.end(), true);
    if (count == classes_) return;
    Log(Severity::kWarning, "classes_without_samples",
        {{"file", set_.labels_name},
         {"reason",
          absl::StrCat("labels show ", classes_, " classes, ", count, " of which have samples")}});
  }

 private:
  // A number that is none would be found late otherwise, as a loss that is none.
  absl::Status CheckInputs(const SampleRows& rows) const {
    const int64_t elements = set_.inputs.elements();
    for (size_t i = 0; i < rows.samples.size(); ++i) {
      DP_RETURN_IF_ERROR(data::CheckFinite(rows.inputs.subspan(i * elements, elements),
                                           set_.inputs_name, rows.samples[i]));
    }
    return absl::OkStatus();
  }

  void ReadInput(int64_t sample, absl::Span<float> to) const {
    if (tables_.empty()) return ReadNumbers(sample, to);
    const uint8_t* from = set_.inputs.bytes(sample);
    const auto part = static_cast<int64_t>(to.size() / tables_.size());
    float* out = to.data();
    for (const ByteTable& table : tables_) {
      out = std::transform(from, from + part, out, [&](uint8_t byte) { return table[byte]; });
      from += part;
    }
  }

  void ReadNumbers(int64_t sample, absl::Span<float> to) const {
    set_.inputs.Read(sample, to);
    Normalize(normalization_, channels(), to);
  }

  int64_t channels() const { return set_.inputs.shape()[0]; }
  float mean(int64_t channel) const { return OfChannel(normalization_.mean, channel, 0); }
  float std(int64_t channel) const { return OfChannel(normalization_.std, channel, 1); }

  const data::SampleSet set_;
  const int classes_;
  const Normalization normalization_;
  bool uniform_ = false;           // one table for all channels
  std::vector<ByteTable> tables_;  // empty if samples are no bytes
};

absl::Status CheckClasses(const data::SampleSet& set, const ArrayDatasetOptions& options) {
  const int classes = options.classes;
  if (set.targets || classes <= 0 || set.labels.classes() <= classes) return absl::OkStatus();
  int64_t bad = 0;
  const auto fits = [&](int32_t label) {
    return label < classes || label == options.ignored_label;
  };
  while (bad < set.labels.size() && fits(set.labels.at(bad))) ++bad;
  if (bad == set.labels.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(set.labels_name, ": label ", set.labels.at(bad), " of sample ", bad,
                   " is out of range, labels are 0 to ", classes - 1));
}

absl::Status CheckList(const char* name, const std::vector<float>& list,
                       const model::Shape& shape) {
  if (list.size() <= 1 || static_cast<int64_t>(list.size()) == shape[0]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has ", list.size(), " numbers, and a sample has the shape ", model::ShapeText(shape),
      "; give one number, or ", shape[0], ", one for each channel"));
}

}  // namespace

float OfChannel(const std::vector<float>& list, int64_t channel, float fallback) {
  if (list.empty()) return fallback;
  return list.size() == 1 ? list[0] : list[channel];
}

void Normalize(const Normalization& normalization, int64_t channels, absl::Span<float> sample) {
  const auto part = static_cast<int64_t>(sample.size()) / channels;
  for (int64_t channel = 0; channel < channels; ++channel) {
    const float mean = OfChannel(normalization.mean, channel, 0);
    const float std = OfChannel(normalization.std, channel, 1);
    for (float& value : sample.subspan(channel * part, part)) value = (value - mean) / std;
  }
}

absl::Status CheckNormalization(const Normalization& normalization, const model::Shape& shape) {
  DP_RETURN_IF_ERROR(CheckList("mean", normalization.mean, shape));
  DP_RETURN_IF_ERROR(CheckList("std", normalization.std, shape));
  for (const float std : normalization.std) {
    if (!(std > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("std is ", std, "; it must be above 0"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenArrayDataset(const ArrayDatasetOptions& options,
                                                          Split split) {
  DP_ASSIGN_OR_RETURN(data::SampleSet set, data::ReadSamples(options.source, split));
  DP_RETURN_IF_ERROR(CheckNormalization(options.normalization, set.inputs.shape()));
  DP_RETURN_IF_ERROR(CheckClasses(set, options));
  auto opened = std::make_unique<ArrayDataset>(std::move(set), options);
  if (split == Split::kTrain && options.classes == 0) opened->TellGaps();
  return opened;
}

}  // namespace dp::engine
