#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/sample_set.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/token_file.h"

namespace dp::engine {

using data::Split;

struct TokenDatasetOptions {
  TokenFormat format = TokenFormat::kText;
  std::vector<std::string> train;  // files
  std::vector<std::string> test;   // if none: the last tenth of each file of `train`
  int context = 0;                 // tokens of a sample
  int vocabulary = 256;
  // For kText, the files of a byte-pair encoding (base/data/bpe_file.h), whose tokens take the
  // place of bytes. Empty: none.
  std::string bpe_vocabulary = {};
  std::string bpe_merges = {};
};

// A text in windows of context + 1 tokens; each window begins with the last token of its
// predecessor. With T = context, sample i of a file is its tokens [i T, i T + T). The labels are
// its tokens [i T + 1, i T + T + 1). No window crosses the end of a file; tokens that do not fill a
// window are left out. All files are held in memory.
// Errors: those of ReadTokenFile and OpenBpeTokenizer; InvalidArgument an encoding with more tokens
// than the vocabulary (names both); no file fills a window.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTokenDataset(const TokenDatasetOptions& options,
                                                          Split split);

}  // namespace dp::engine
