#include "worker/engine/data/token_dataset.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/data/bpe_file.h"
#include "base/status.h"

namespace dp::engine {
namespace {

using Tokens = std::vector<uint16_t>;

class TokenDataset : public Dataset {
 public:
  TokenDataset(std::vector<Tokens> files, const TokenDatasetOptions& options)
      : shape_{options.context}, vocabulary_(options.vocabulary), files_(std::move(files)) {
    for (const Tokens& file : files_) {
      first_.push_back(size_);
      if (!file.empty()) size_ += (static_cast<int64_t>(file.size()) - 1) / options.context;
    }
  }

  int64_t size() const override { return size_; }
  const model::Shape& sample_shape() const override { return shape_; }
  int classes() const override { return vocabulary_; }
  bool of_tokens() const override { return true; }

  Storage storage() const override {
    StoredTokens stored;
    for (size_t i = 0; i < files_.size(); ++i) stored.files.push_back({files_[i], first_[i]});
    return stored;
  }

  void Gather(absl::Span<const int64_t> samples, absl::Span<float> images,
              absl::Span<int32_t> labels) const override {
    const int64_t context = shape_[0];
    DP_CHECK(images.size() >= samples.size() * context &&
             labels.size() >= samples.size() * context);
    for (size_t i = 0; i < samples.size(); ++i) {
      const uint16_t* window = Window(samples[i]);
      std::copy_n(window, context, images.begin() + i * context);
      std::copy_n(window + 1, context, labels.begin() + i * context);
    }
  }

 private:
  const uint16_t* Window(int64_t sample) const {
    DP_CHECK(sample >= 0 && sample < size_);
    const auto after = std::upper_bound(first_.begin(), first_.end(), sample);
    const size_t file = after - first_.begin() - 1;
    return files_[file].data() + (sample - first_[file]) * shape_[0];
  }

  const model::Shape shape_;
  const int vocabulary_;
  const std::vector<Tokens> files_;
  std::vector<int64_t> first_;  // number of each file's first sample
  int64_t size_ = 0;
};

// None for data without an encoding.
absl::StatusOr<std::optional<data::BpeTokenizer>> OpenEncoding(const TokenDatasetOptions& options) {
  if (options.bpe_vocabulary.empty()) return std::nullopt;
  DP_ASSIGN_OR_RETURN(data::BpeTokenizer encoding,
                      data::OpenBpeTokenizer(options.bpe_vocabulary, options.bpe_merges));
  if (encoding.vocabulary() <= options.vocabulary) return encoding;
  return absl::InvalidArgumentError(absl::StrCat(
      options.bpe_vocabulary, " has tokens up to ", encoding.vocabulary() - 1,
      ", but train.data.vocabulary is ", options.vocabulary, "; make it ", encoding.vocabulary()));
}

// Without test files, a tenth of each file is kept from training.
Tokens PartOf(Tokens file, Split split) {
  const auto border = file.begin() + (file.size() - file.size() / 10);
  return split == Split::kTrain ? Tokens(file.begin(), border) : Tokens(border, file.end());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTokenDataset(const TokenDatasetOptions& options,
                                                          Split split) {
  DP_CHECK(options.context > 0 && options.vocabulary > 0);
  const bool parted = options.test.empty();
  const auto& paths = split == Split::kTrain || parted ? options.train : options.test;
  DP_ASSIGN_OR_RETURN(const std::optional<data::BpeTokenizer> encoding, OpenEncoding(options));
  std::vector<Tokens> files;
  int64_t tokens = 0;
  for (const std::string& path : paths) {
    DP_ASSIGN_OR_RETURN(Tokens file, ReadTokenFile(path, options.format, options.vocabulary,
                                                   encoding ? &*encoding : nullptr));
    files.push_back(parted ? PartOf(std::move(file), split) : std::move(file));
    tokens += static_cast<int64_t>(files.back().size());
  }
  auto dataset = std::make_unique<TokenDataset>(std::move(files), options);
  if (dataset->size() > 0) return dataset;
  return absl::InvalidArgumentError(absl::StrCat(
      split == Split::kTrain ? "for training " : "for the test ", absl::StrJoin(paths, ", "),
      parted ? " would give " : " gives ", tokens, " tokens and not one window of context + 1 = ",
      options.context + 1, "; make train.data.context smaller, or give more text"));
}

}  // namespace dp::engine
