// The spool that an earlier daemon has left, and the secrets that a daemon hides in ranks' output.
// A stream without secrets is sent byte for byte. However it is cut into pieces, no secret is sent.
// Damaged notes of the earlier daemon neither lose bytes nor repeat them without an end.
//
// The first byte chooses the parser.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/testing/scratch_dir.h"
#include "tests/fuzz/seeds.h"
#include "worker/agent/spool/log_spool.h"
#include "worker/agent/spool/secret_mask.h"
#include "worker/agent/spool/spool_file.h"

namespace dp::fuzz::spool {
namespace {

using worker::LogSpool;
using worker::SecretMask;
using worker::SpoolFile;

// Parts with zero bytes between them.
std::vector<std::string> Parts(absl::string_view text) { return absl::StrSplit(text, '\0'); }

// Hides secrets by looking for each line at each place.
std::string NaivelyHidden(const std::string& text, const std::vector<std::string>& values) {
  std::string hidden = text;
  for (const std::string& value : values) {
    for (const absl::string_view line : absl::StrSplit(value, absl::ByAnyChar("\r\n"))) {
      const absl::string_view secret = absl::StripAsciiWhitespace(line);
      if (secret.size() < kSecretValueBytesMin) continue;
      for (size_t at = 0; (at = text.find(secret.data(), at, secret.size())) != text.npos; ++at) {
        hidden.replace(at, secret.size(), secret.size(), '*');
      }
    }
  }
  return hidden;
}

// Longer lines are hidden in pieces, which the naive search does not know.
bool AreShort(const std::vector<std::string>& values) {
  constexpr size_t kPieceBytesMax = 1 << 10;
  return std::all_of(values.begin(), values.end(),
                     [](const std::string& value) { return value.size() <= kPieceBytesMax; });
}

// Values, at last a text.
void CheckMask(absl::string_view input) {
  std::vector<std::string> values = Parts(input);
  const std::string text = std::move(values.back());
  values.pop_back();
  const SecretMask mask(values);
  std::string hidden = text;
  mask.Hide(&hidden, {});
  DP_CHECK(hidden.size() == text.size());
  const std::string naive = NaivelyHidden(text, values);
  if (AreShort(values)) DP_CHECK(hidden == naive);
  // Cut anywhere, both halves show no more, but for fewer bytes than a secret has.
  for (size_t cut = 0; cut <= text.size(); cut += 1 + text.size() / 32) {
    std::string head = text.substr(0, cut), tail = text.substr(cut);
    mask.Hide(&head, {.after = true});
    mask.Hide(&tail, {.before = true});
    for (size_t at = 0; at < text.size(); ++at) {
      const bool near = at + kSecretValueBytesMin > cut && at < cut + kSecretValueBytesMin - 1;
      const char shown = at < cut ? head[at] : tail[at - cut];
      DP_CHECK(hidden[at] != '*' || shown == '*' || near);
    }
  }
}

void CheckSecretsText(absl::string_view text) {
  const auto values = worker::SecretsInText(std::string(text));
  if (values.has_value()) DP_CHECK(worker::SecretsInText(worker::SecretsText(*values)) == values);
  const std::vector<std::string> parts = Parts(text);
  DP_CHECK(worker::SecretsInText(worker::SecretsText(parts)) == parts);
}

// The files of one rank, whose stream an earlier daemon has left.
class LeftOver {
 public:
  LeftOver() { std::filesystem::create_directories(std::filesystem::path(stream_).parent_path()); }
  void Write(const char* suffix, absl::string_view text) const {
    std::ofstream(stream_ + suffix, std::ios::binary | std::ios::trunc) << text;
  }
  void Remove(const char* suffix) const { std::filesystem::remove(stream_ + suffix); }
  const std::string& stream() const { return stream_; }
  const LogSpool& spool() const { return spool_; }

 private:
  const ScratchDir dir_;
  const LogSpool spool_{dir_.path(), {JobId(7), Generation(2), 3}};
  const std::string stream_ = spool_.path(v1::LOG_STREAM_STDOUT);
};

const LeftOver& Files() {
  static const auto& files = *new LeftOver();
  return files;
}

// Reads and acknowledges the stream to its end.
std::string Sent(SpoolFile& file, size_t bytes_max) {
  std::string sent;
  uint64_t end = 0;
  for (;;) {
    const SpoolFile::Piece piece = file.Next(bytes_max, /*ended=*/true);
    if (piece.empty()) return sent;
    DP_CHECK(piece.offset >= end);
    DP_CHECK(piece.data.empty() || piece.cut_bytes == 0);
    sent += piece.data;
    end = piece.offset + piece.data.size() + piece.cut_bytes;
    DP_CHECK(end > piece.offset);
    file.Acknowledge(end);
  }
}

// A limit for pieces, values, at last the stream.
void CheckStream(absl::string_view input) {
  const size_t bytes_max = 1 + TakeChoice(&input);
  std::vector<std::string> values = Parts(input);
  const std::string text = std::move(values.back());
  values.pop_back();
  Files().Write("", text);
  Files().Remove(SpoolFile::kShiftSuffix);
  SpoolFile file(Files().stream(), /*left_over=*/true, SpoolFile::PunchHole,
                 std::make_shared<SecretMask>(values));
  std::string hidden = text;
  SecretMask(values).Hide(&hidden, {.after = true});
  const std::string sent = Sent(file, bytes_max);
  DP_CHECK(absl::StartsWith(hidden, sent));
  // A line that is longer than a piece waits: pieces have room for any line that must be whole.
  const absl::string_view rest = absl::string_view(hidden).substr(sent.size());
  DP_CHECK(rest.empty() || rest.substr(0, bytes_max).find('\n') == rest.npos);
}

// The note beside the stream, a zero byte, the stream.
void CheckShift(absl::string_view input) {
  const std::string note(TakePart(&input, '\0'));
  Files().Write(SpoolFile::kShiftSuffix, note);
  Files().Write("", input);
  SpoolFile file(Files().stream(), /*left_over=*/true);
  const std::string sent = Sent(file, input.size() + 1);  // room for any line
  uint64_t shift = 0;
  const bool ends = absl::SimpleAtoi(note, &shift) && shift <= SpoolFile::kStreamBytesMax + 1 &&
                    shift + input.size() > SpoolFile::kStreamBytesMax;
  DP_CHECK(ends ? absl::StartsWith(input, sent) : sent == input);
}

void CheckOwner(absl::string_view text) {
  const std::string of_job = std::filesystem::path(Files().stream()).replace_extension(".job");
  std::ofstream(of_job, std::ios::binary) << text;
  const auto owner = Files().spool().owner();
  if (!owner.has_value()) return;
  DP_CHECK(Files().spool().Create(*owner).ok());
  DP_CHECK(Files().spool().owner() == owner);
}

constexpr void (*kParsers[])(absl::string_view) = {CheckMask, CheckSecretsText, CheckStream,
                                                   CheckShift, CheckOwner};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  const std::string zero(1, '\0');
  const std::string lines = "epoch 1\ntoken hf_abcdef\nhf_abchf_abcdef\n";
  return {Chosen(0, absl::StrCat("hf_abcdef", zero, "hf_abc", zero, lines)),
          Chosen(0, absl::StrCat("--KEY--\nQUJDRA==\n", zero, "a QUJDRA==QUJDRA== b")),
          Chosen(1, "6\nhf_abc9\nhf_abcdef"),
          Chosen(2, absl::StrCat("\x0f", "hf_abcdef", zero, lines)),
          Chosen(2, absl::StrCat("\x01", "aaaa", zero, "aaaaaaaaaa\n")),
          Chosen(2, absl::StrCat("\x40", lines)),
          Chosen(3, absl::StrCat("4096\n", zero, lines)),
          Chosen(3, absl::StrCat("18446744073709551615", zero, lines)),
          Chosen(3, absl::StrCat(SpoolFile::kStreamBytesMax - 4, zero, lines)),
          Chosen(3, absl::StrCat(SpoolFile::kStreamBytesMax + 2, zero, lines)),
          Chosen(4, "1764228000000000000 12 345"),
          Chosen(4, "1764228000000000000")};
}

}  // namespace dp::fuzz::spool
