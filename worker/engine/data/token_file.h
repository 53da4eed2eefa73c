#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dp::engine {

enum class TokenFormat {
  kText,    // any file: each byte is a token
  kTokens,  // 16-bit tokens, little-endian, as nanoGPT writes them; or behind the header of llm.c
};

// Reads a whole file of tokens. Where the first 4 bytes of kTokens are 20240520 it has llm.c's
// header: 256 little-endian 32-bit integers, of which the second is the version, 1, and the third
// the count of tokens that follow.
// Errors: the system's where it cannot be read; InvalidArgument, naming the file and both values,
// for an odd size, another version, a count that is not the file's, or a token that is not below
// `vocabulary`.
absl::StatusOr<std::vector<uint16_t>> ReadTokenFile(const std::string& path, TokenFormat format,
                                                    int vocabulary);

}  // namespace dp::engine
