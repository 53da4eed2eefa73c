#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/data/text/bpe_tokenizer.h"

namespace dp::data {

// Reads the two files of a byte-pair encoding, as GPT-2's vocab.json and merges.txt.
// Errors: those of OpenFile; InvalidArgument those of BpeTokenizer::Parse, with the file's path.
absl::StatusOr<BpeTokenizer> OpenBpeTokenizer(const std::string& vocabulary,
                                              const std::string& merges);

}  // namespace dp::data
