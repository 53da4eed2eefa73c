#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dp::data {

// The names of an encoding's two files in errors.
struct BpeFileNames {
  std::string vocabulary = "vocab.json";
  std::string merges = "merges.txt";
};

// Byte-level byte-pair encoding, as GPT-2 and its kin have it (Radford et al. 2019; Sennrich et al.
// 2016). A text is cut into words (pretoken.h). A word begins as its bytes. One pair of neighbours
// stands first in the list of merges. It becomes one token wherever it occurs in the word, left to
// right. This repeats until no pair of neighbours is in the list. Texts of special tokens, as
// <|endoftext|>, are text like any other when they are encoded.
//
// Any bytes can be encoded, and Decode(Encode(bytes)) is the bytes. Pure; immutable, so any thread
// may use it.
class BpeTokenizer {
 public:
  // `vocabulary` is the JSON of a vocab.json: token -> number. `merges` is a merges.txt: a pair a
  // line, after a line that begins with "#version". Both write bytes as GPT-2 does: printable ones
  // as themselves, the others as the characters from U+0100 on.
  // Errors: InvalidArgument no such JSON, a token of other characters, or a byte that is no token.
  // Also a number that is there twice or has more than 16 bits, or a merge of what is no token.
  static absl::StatusOr<BpeTokenizer> Parse(absl::string_view vocabulary, absl::string_view merges,
                                            const BpeFileNames& names = {});

  // 16 bits hold each token.
  std::vector<uint16_t> Encode(absl::string_view text) const;
  // Numbers that are no token give nothing.
  std::string Decode(absl::Span<const uint16_t> tokens) const;

  // The largest number of a token and 1.
  int vocabulary() const { return static_cast<int>(bytes_of_.size()); }

 private:
  struct Merge {
    int32_t rank = 0;  // place in the list
    uint16_t token = 0;
  };

  const Merge* FindMerge(uint16_t left, uint16_t right) const;
  void EncodeWord(absl::string_view word, std::vector<uint16_t>& tokens) const;

  uint16_t token_of_byte_[256] = {};
  std::vector<std::string> bytes_of_;            // of each token
  absl::flat_hash_map<uint32_t, Merge> merges_;  // by both tokens

  friend class BpeParser;
  friend class WordMerge;
};

}  // namespace dp::data
