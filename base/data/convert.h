#pragma once

#include <string>

#include "absl/status/status.h"

namespace dp::data {

struct ConvertOptions {
  bool to_tokens = false;  // whatever the name of the new file
  // The files of a byte-pair encoding (text/bpe_tokenizer.h), whose tokens take the place of bytes.
  // Empty: none.
  std::string bpe_vocabulary = {};
  std::string bpe_merges = {};
};

// Writes the samples of an IDX, NPY or CSV file, or of an archive's array, to another format. The
// ending of `to` names the format: .npy, or NAME-idxN-TYPE. A text becomes 16-bit tokens where `to`
// ends in .bin, a token for each byte or those of an encoding. The file appears when it is
// complete.
// Errors: those of the reader; AlreadyExists `to` is there; the system's if it cannot be written.
// InvalidArgument a name without such an ending, or another N or TYPE than the samples have.
// InvalidArgument tokens of a file that is no text, or an encoding for something else than tokens.
absl::Status Convert(const std::string& from, const std::string& to,
                     const ConvertOptions& options = {});

}  // namespace dp::data
