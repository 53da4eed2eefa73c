// Byte-pair encodings: their two files, and texts. A file is taken as a whole or not at all, and
// any bytes come back from their tokens.
//
// The first byte chooses: both files, the first behind its length; or a text for a small encoding.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/data/text/bpe_tokenizer.h"
#include "base/data/text/testing/bpe_files.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::bpe {
namespace {

using dp::data::BpeTokenizer;

constexpr uint8_t kFiles = 1;  // else a text

const dp::data::BpeFiles& Small() {
  static const dp::data::BpeFiles& files = *new dp::data::BpeFiles(
      dp::data::BpeFilesWith({"h e", "he l", "Ġ t", "Ċ Ċ", "a a", "aa aa", "' s", "Ã ¤"}));
  return files;
}

void CheckComesBack(const BpeTokenizer& tokenizer, absl::string_view text) {
  const std::vector<uint16_t> tokens = tokenizer.Encode(text);
  DP_CHECK(tokens.size() <= text.size());
  DP_CHECK(tokenizer.Decode(tokens) == text);
}

}  // namespace

void Run(absl::string_view input) {
  if (TakeChoice(&input) == kFiles) {
    const absl::string_view vocabulary = TakeSized(&input);
    const auto tokenizer = BpeTokenizer::Parse(vocabulary, input);
    if (tokenizer.ok()) CheckComesBack(*tokenizer, input);
    return;
  }
  static const BpeTokenizer& small =
      *new BpeTokenizer(*BpeTokenizer::Parse(Small().vocabulary, Small().merges));
  CheckComesBack(small, input);
}

std::vector<std::string> Seeds() {
  return {Chosen(kFiles, absl::StrCat(Sized(Small().vocabulary), Small().merges)),
          Chosen(kFiles, absl::StrCat(Sized("{\"a\": 0, \"\\u0120b\": 1}"), "a Ġb\n")),
          Chosen(0, "The hello's aaaa  \n\n x\xc3\xa4 \xff 12")};
}

}  // namespace dp::fuzz::bpe
