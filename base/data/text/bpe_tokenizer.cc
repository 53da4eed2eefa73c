#include "base/data/text/bpe_tokenizer.h"

#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/data/text/json_numbers.h"
#include "base/data/text/pretoken.h"
#include "base/data/text/unicode_class.h"
#include "base/status.h"

namespace dp::data {
namespace {

constexpr int64_t kTokensMax = int64_t{1} << 16;
// Words whose tokens are remembered while a text is encoded; most words of a text are frequent
// ones.
constexpr size_t kRememberedWordsMax = size_t{1} << 20;

bool IsWrittenAsItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// The byte that each character below U+0144 stands for; -1: none.
std::array<int, 0x144> BytesOfCharacters() {
  std::array<int, 0x144> bytes;
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[static_cast<size_t>(IsWrittenAsItself(byte) ? byte : next++)] = byte;
  }
  return bytes;
}

uint32_t PairKey(uint16_t left, uint16_t right) { return uint32_t{left} << 16 | right; }

absl::Status InFile(const std::string& file, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

}  // namespace

// Makes a tokenizer from the texts of its files.
class BpeParser {
 public:
  absl::Status TakeVocabulary(absl::string_view json) {
    DP_ASSIGN_OR_RETURN(const auto members, ParseJsonNumbers(json));
    for (const auto& [name, number] : members) DP_RETURN_IF_ERROR(TakeToken(name, number));
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = tokens_.find(std::string(1, static_cast<char>(byte)));
      if (found == tokens_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("byte ", byte, " is no token; byte-level BPE needs all 256 of them"));
      }
      made_.token_of_byte_[byte] = found->second;
    }
    return absl::OkStatus();
  }

  absl::Status TakeMerges(absl::string_view text) {
    for (int line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      absl::string_view pair = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      absl::ConsumeSuffix(&pair, "\r");
      if (pair.empty() || absl::StartsWith(pair, "#version")) continue;
      const absl::Status taken = TakeMerge(pair);
      if (!taken.ok()) {
        return absl::Status(taken.code(), absl::StrCat("line ", line, ": ", taken.message()));
      }
    }
    return absl::OkStatus();
  }

  BpeTokenizer Finish() && { return std::move(made_); }

 private:
  absl::StatusOr<std::string> BytesOf(absl::string_view written) const {
    std::string bytes;
    for (absl::string_view rest = written; !rest.empty();) {
      const Character next = FirstCharacter(rest);
      const int byte =
          next.code < bytes_of_characters_.size() ? bytes_of_characters_[next.code] : -1;
      if (byte < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", absl::Utf8SafeCEscape(written),
                         "' has a character that stands for no byte; are these the files of a "
                         "byte-level BPE, as GPT-2's?"));
      }
      bytes += static_cast<char>(byte);
      rest.remove_prefix(next.bytes);
    }
    return bytes;
  }

  absl::Status TakeToken(const std::string& name, int64_t number) {
    DP_ASSIGN_OR_RETURN(std::string bytes, BytesOf(name));
    if (bytes.empty()) return absl::InvalidArgumentError("a token is empty");
    if (number >= kTokensMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", number, " is too large; tokens are ", "at most ", kTokensMax - 1));
    }
    const auto token = static_cast<uint16_t>(number);
    if (made_.bytes_of_.size() <= token) made_.bytes_of_.resize(size_t{token} + 1);
    if (!made_.bytes_of_[token].empty() || tokens_.contains(bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", number, " ('", absl::Utf8SafeCEscape(name), "') is there twice"));
    }
    made_.bytes_of_[token] = bytes;
    tokens_.emplace(std::move(bytes), token);
    return absl::OkStatus();
  }

  absl::StatusOr<uint16_t> TokenOf(const std::string& bytes) const {
    const auto found = tokens_.find(bytes);
    if (found != tokens_.end()) return found->second;
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(bytes),
                     "' is no token of the vocabulary; give files that belong together"));
  }

  absl::Status TakeMerge(absl::string_view pair) {
    const size_t space = pair.find(' ');
    if (space == absl::string_view::npos) {
      return absl::InvalidArgumentError("expected two tokens with a space between them");
    }
    DP_ASSIGN_OR_RETURN(const std::string left, BytesOf(pair.substr(0, space)));
    DP_ASSIGN_OR_RETURN(const std::string right, BytesOf(pair.substr(space + 1)));
    DP_ASSIGN_OR_RETURN(const uint16_t first, TokenOf(left));
    DP_ASSIGN_OR_RETURN(const uint16_t second, TokenOf(right));
    DP_ASSIGN_OR_RETURN(const uint16_t both, TokenOf(left + right));
    const auto rank = static_cast<int32_t>(made_.merges_.size());
    made_.merges_.try_emplace(PairKey(first, second), BpeTokenizer::Merge{rank, both});
    return absl::OkStatus();
  }

  const std::array<int, 0x144> bytes_of_characters_ = BytesOfCharacters();
  absl::flat_hash_map<std::string, uint16_t> tokens_;  // by their bytes
  BpeTokenizer made_;
};

// The merges of one word: a list of tokens, and a queue of the pairs that can be merged. Takes
// n log n for n bytes, because a "word" may be a megabyte of dashes.
class WordMerge {
 public:
  WordMerge(const BpeTokenizer& tokenizer, absl::string_view word) : tokenizer_(tokenizer) {
    places_.reserve(word.size());
    for (const char byte : word) {
      const auto at = static_cast<int64_t>(places_.size());
      places_.push_back(
          {tokenizer.token_of_byte_[static_cast<unsigned char>(byte)], at - 1, at + 1});
    }
    for (int64_t at = 0; at < size(); ++at) Queue(at);
  }

  void Run(std::vector<uint16_t>& tokens) {
    while (!pairs_.empty()) MergeAll(pairs_.top().rank);
    for (int64_t at = 0; at < size(); at = places_[at].after) tokens.push_back(places_[at].token);
  }

 private:
  struct Place {
    uint16_t token = 0;
    int64_t before = 0;
    int64_t after = 0;  // size(): the last one
    bool gone = false;  // part of the token before
  };
  struct Pair {
    int32_t rank = 0;
    int64_t at = 0;  // of the left token
    uint16_t left = 0, right = 0, both = 0;

    bool operator>(const Pair& other) const {
      return std::tie(rank, at) > std::tie(other.rank, other.at);
    }
  };

  int64_t size() const { return static_cast<int64_t>(places_.size()); }

  void Queue(int64_t at) {
    if (at < 0 || places_[at].gone || places_[at].after == size()) return;
    const uint16_t left = places_[at].token, right = places_[places_[at].after].token;
    const BpeTokenizer::Merge* merge = tokenizer_.FindMerge(left, right);
    if (merge != nullptr) pairs_.push({merge->rank, at, left, right, merge->token});
  }

  // All occurrences of one pair, left to right, before any pair that arises from them.
  void MergeAll(int32_t rank) {
    std::vector<int64_t> merged;
    while (!pairs_.empty() && pairs_.top().rank == rank) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      Place& left = places_[pair.at];
      // A merge since then may have changed either token.
      if (left.gone || left.token != pair.left || left.after == size()) continue;
      Place& right = places_[left.after];
      if (right.token != pair.right) continue;
      left.token = pair.both;
      right.gone = true;
      left.after = right.after;
      if (left.after < size()) places_[left.after].before = pair.at;
      merged.push_back(pair.at);
    }
    for (const int64_t at : merged) {
      Queue(places_[at].before);
      Queue(at);
    }
  }

  const BpeTokenizer& tokenizer_;
  std::vector<Place> places_;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs_;
};

absl::StatusOr<BpeTokenizer> BpeTokenizer::Parse(absl::string_view vocabulary,
                                                 absl::string_view merges,
                                                 const BpeFileNames& names) {
  BpeParser parser;
  DP_RETURN_IF_ERROR(InFile(names.vocabulary, parser.TakeVocabulary(vocabulary)));
  DP_RETURN_IF_ERROR(InFile(names.merges, parser.TakeMerges(merges)));
  return std::move(parser).Finish();
}

const BpeTokenizer::Merge* BpeTokenizer::FindMerge(uint16_t left, uint16_t right) const {
  const auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeTokenizer::EncodeWord(absl::string_view word, std::vector<uint16_t>& tokens) const {
  WordMerge(*this, word).Run(tokens);
}

std::vector<uint16_t> BpeTokenizer::Encode(absl::string_view text) const {
  struct Encoded {
    size_t first = 0, count = 0;  // of the tokens so far
  };
  std::vector<uint16_t> tokens;
  absl::flat_hash_map<absl::string_view, Encoded> remembered;
  while (!text.empty()) {
    const absl::string_view word = text.substr(0, PretokenLength(text));
    text.remove_prefix(word.size());
    if (const auto known = remembered.find(word); known != remembered.end()) {
      for (size_t i = 0; i < known->second.count; ++i) {
        const uint16_t token = tokens[known->second.first + i];
        tokens.push_back(token);
      }
      continue;
    }
    const size_t before = tokens.size();
    EncodeWord(word, tokens);
    if (remembered.size() < kRememberedWordsMax) {
      remembered[word] = {before, tokens.size() - before};
    }
  }
  return tokens;
}

std::string BpeTokenizer::Decode(absl::Span<const uint16_t> tokens) const {
  std::string bytes;
  for (const uint16_t token : tokens) {
    if (token < bytes_of_.size()) bytes += bytes_of_[token];
  }
  return bytes;
}

}  // namespace dp::data
