#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/data/text/bpe_tokenizer.h"

namespace dp::engine {

enum class TokenFormat {
  kText,    // any file: each byte is a token
  kTokens,  // 16-bit tokens, little-endian, as nanoGPT writes them; llm.c's header may precede them
};

// Reads a whole file of tokens. A kTokens file whose first 4 bytes are 20240520 has llm.c's header:
// 256 little-endian 32-bit integers. The second one is the version, 1; the third is the count of
// tokens that follow.
// With an `encoding`, the tokens of a kText file are its, in place of bytes.
// Errors: the system's if the file cannot be read; InvalidArgument an odd size, another version, a
// wrong count or a token not below `vocabulary`. The message names the file and both values.
absl::StatusOr<std::vector<uint16_t>> ReadTokenFile(const std::string& path, TokenFormat format,
                                                    int vocabulary,
                                                    const data::BpeTokenizer* encoding = nullptr);

}  // namespace dp::engine
