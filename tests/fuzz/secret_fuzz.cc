// Secrets of jobs: sealed values from the journal, the key that seals them, and where dpctl reads a
// value. Only values that the key has sealed are opened, and only at their place. No error shows
// the value that a user gave.
//
// The first byte chooses the parser.

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/security/sealing_key.h"
#include "client/job/secret_source.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::secret {
namespace {

using security::SealingKey;

constexpr char kPlace[] = "request-1/HF_TOKEN";
constexpr char kOtherPlace[] = "request-2/HF_TOKEN";
constexpr const char* kValues[] = {"", "hf_abc", "-----BEGIN KEY-----\nQUJD\n-----END KEY-----"};

const SealingKey& Key() {
  static const auto& key = *new SealingKey(*SealingKey::From(std::string(SealingKey::kBytes, 'k')));
  return key;
}
const SealingKey& OtherKey() {
  static const auto& key = *new SealingKey(*SealingKey::From(std::string(SealingKey::kBytes, 'o')));
  return key;
}

// Whoever has no key cannot make a sealed value, so only those of Seeds are opened.
void CheckSealed(absl::string_view sealed) {
  const auto value = Key().Open(sealed, kPlace);
  const auto of_other = OtherKey().Open(sealed, kPlace);
  DP_CHECK(!value.ok() || !of_other.ok());
  if (!value.ok()) {
    DP_CHECK(absl::IsDataLoss(value.status()) || absl::IsFailedPrecondition(value.status()));
    return;
  }
  DP_CHECK(std::find(std::begin(kValues), std::end(kValues), *value) != std::end(kValues));
  DP_CHECK(absl::IsFailedPrecondition(of_other.status()));
  DP_CHECK(absl::IsDataLoss(Key().Open(sealed, kOtherPlace).status()));
}

// A value, which changes when any byte of its seal does.
void CheckGenuine(absl::string_view value) {
  const std::string sealed = Key().Seal(value, kPlace);
  DP_CHECK(Key().Open(sealed, kPlace).value_or("?") == value);
  constexpr size_t kHeadBytes = 21;  // the form, the key's id, the nonce
  constexpr size_t kFewChances = 8;  // of finding so short a value in random bytes
  const absl::string_view hidden = absl::string_view(sealed).substr(kHeadBytes);
  DP_CHECK(value.size() < kFewChances || !absl::StrContains(hidden, value));
  const size_t step = 1 + sealed.size() / 64;
  for (size_t at = 0; at < sealed.size(); at += step) {
    DP_CHECK(!Key().Open(sealed.substr(0, at), kPlace).ok());
    std::string changed = sealed;
    changed[at] ^= 1;
    DP_CHECK(!Key().Open(changed, kPlace).ok());
  }
}

void CheckKey(absl::string_view bytes) {
  const auto key = SealingKey::From(bytes);
  DP_CHECK(key.ok() == (bytes.size() == SealingKey::kBytes));
  if (key.ok()) DP_CHECK(key->bytes() == bytes);
}

void CheckSource(absl::string_view text) {
  const auto source = client::ParseSecretSource(text);
  const size_t equals = text.find('=');
  DP_CHECK(source.ok() == (equals == text.npos || equals + 1 < text.size()));
  if (!source.ok()) return;
  const std::string again =
      source->file.empty() ? source->name : absl::StrCat(source->name, "=", source->file);
  DP_CHECK(again == text && !absl::StrContains(source->name, "="));
}

absl::StatusOr<std::string> ReadFrom(const std::string& contents) {
  const MemoryFile file(contents);
  return client::ReadSecret({"HF_TOKEN", file.path()}, "/");
}

void CheckFile(absl::string_view text) {
  const std::string contents(text);
  const auto value = ReadFrom(contents);
  const bool breaks = !contents.empty() && contents.back() == '\n';
  const std::string wanted = contents.substr(0, contents.size() - (breaks ? 1 : 0));
  DP_CHECK(value.ok() == (wanted.size() >= kSecretValueBytesMin &&
                          wanted.size() <= kSecretBytesMax && !absl::StrContains(wanted, '\0')));
  if (value.ok()) return DP_CHECK(*value == wanted);
  // The error is the same for every value of this size, so it shows nothing of it.
  std::string like = contents;
  for (char& byte : like) byte = byte == '\0' || byte == '\n' ? byte : 'x';
  DP_CHECK(ReadFrom(like).status() == value.status());
}

constexpr void (*kParsers[])(absl::string_view) = {CheckSealed, CheckGenuine, CheckKey, CheckSource,
                                                   CheckFile};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds = {
      Chosen(0, OtherKey().Seal("hf_abc", kPlace)),
      Chosen(0, Key().Seal("hf_abc", kOtherPlace)),
      Chosen(1, "hf_abc"),
      Chosen(1, std::string(100, 'v')),
      Chosen(2, std::string(SealingKey::kBytes, 'k')),
      Chosen(3, "HF_TOKEN"),
      Chosen(3, "HF_TOKEN=/home/ann/token"),
      Chosen(3, "HF_TOKEN="),
      Chosen(4, "hf_abc\n"),
      Chosen(4, "abc"),
      Chosen(4, std::string("a\0bcd", 5)),
  };
  for (const char* value : kValues) seeds.push_back(Chosen(0, Key().Seal(value, kPlace)));
  return seeds;
}

}  // namespace dp::fuzz::secret
