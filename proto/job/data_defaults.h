#pragma once

#include <algorithm>
#include <cstdint>

#include "dp/v1/job_spec.pb.h"

// Defaults of `train.data` that trainers also fill in, for jobs that were recorded without them.

namespace dp {

// GPT-2's tokens, and the values of a byte.
inline constexpr int kTokensVocabulary = 50257;
inline constexpr int kTextVocabulary = 256;

// As torchvision's RandomResizedCrop has it.
inline constexpr double kCropAreaMin = 0.08;

inline int DefaultVocabulary(const v1::DataSpec& text) {
  return text.kind() == "tokens" || text.has_bpe() ? kTokensVocabulary : kTextVocabulary;
}

// A tenth of the training set, but at least one sample.
inline int64_t DefaultTestSamples(const v1::SyntheticSpec& synthetic) {
  return std::max<int64_t>(synthetic.samples() / 10, 1);
}

}  // namespace dp
