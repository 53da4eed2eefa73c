// The short texts of flags, job files and messages: addresses, labels, dependencies, ranges,
// patterns, identities, UTF-8. Each value that a parser accepts must come back from its own text,
// and no accepted value is beyond its limits.
//
// The first byte chooses the parser.

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/dependency.h"
#include "base/host_port.h"
#include "base/labels.h"
#include "base/name.h"
#include "base/natural_order.h"
#include "base/node_range.h"
#include "base/security/identity.h"
#include "base/signal_name.h"
#include "base/utf8.h"
#include "base/variable_pattern.h"
#include "tests/fuzz/seeds.h"

namespace dp::fuzz::words {
namespace {

void CheckHostPort(absl::string_view text) {
  const auto parsed = ParseHostPort(std::string(text));
  if (!parsed.ok()) return;
  int port = 0;
  DP_CHECK(absl::SimpleAtoi(parsed->port, &port) && port >= 1 && port <= 65535);
  DP_CHECK(!parsed->host.empty());
  const bool v6 = parsed->host.find(':') != std::string::npos;
  const auto again = ParseHostPort(v6 ? absl::StrCat("[", parsed->host, "]:", parsed->port)
                                      : absl::StrCat(parsed->host, ":", parsed->port));
  DP_CHECK(again.ok() && again->host == parsed->host && again->port == parsed->port);
}

void CheckLabels(absl::string_view text) {
  if (const auto label = ParseLabel(text); label.ok()) {
    DP_CHECK(IsLabelKey(label->key) && label->value.size() <= kLabelBytesMax);
    DP_CHECK(absl::StrCat(label->key, "=", label->value) == text);
  }
  if (const auto constraint = ParseConstraint(text); constraint.ok()) {
    DP_CHECK(ToString(*constraint) == text);
    // No worker both satisfies a condition and its opposite.
    const Labels labels = {{constraint->key, constraint->value}};
    const bool equal = constraint->how == LabelConstraint::How::kEquals;
    DP_CHECK(!equal || Satisfies(labels, *constraint));
  }
}

void CheckNumbers(absl::string_view text) {
  if (const auto dependency = ParseDependency(text); dependency.ok()) {
    DP_CHECK(dependency->job.valid());
    const auto again = ParseDependency(
        absl::StrCat(dependency->must_succeed ? "ok:" : "any:", dependency->job.value()));
    DP_CHECK(again.ok() && *again == *dependency);
  }
  if (const auto range = ParseNodeRange(text); range.ok()) {
    DP_CHECK(range->min >= 1 && range->min <= range->max && range->max <= 10'000);
    const auto again = ParseNodeRange(absl::StrCat(range->min, ":", range->max));
    DP_CHECK(again.ok() && *again == *range);
  }
}

// Two texts with a line break between them.
void CheckPairs(absl::string_view text) {
  const absl::string_view first = TakePart(&text, '\n');
  if (IsVariablePattern(first) && MatchesVariable(text, first)) {
    // The empty pattern is none, so only names of variables match.
    DP_CHECK(first == text || IsVariableName(text));
  }
  DP_CHECK(!NaturallyLess(first, first));
  DP_CHECK(!(NaturallyLess(first, text) && NaturallyLess(text, first)));
  DP_CHECK(first == text || NaturallyLess(first, text) || NaturallyLess(text, first));
  (void)IsSignalName(first);
  DP_CHECK(!IsName(first) || IsWorkerName(first));
}

void CheckIdentity(absl::string_view text) {
  if (const auto identity = security::ParseUri(text); identity.ok()) {
    DP_CHECK(security::IsDpUri(text) && !identity->name.empty());
    const auto again = security::ParseUri(security::ToUri(*identity));
    DP_CHECK(again.ok() && *again == *identity);
  }
  // Any name survives as a URI.
  if (text.empty()) return;
  const security::Identity named{security::Role::kUser, std::string(text)};
  const auto again = security::ParseUri(security::ToUri(named));
  DP_CHECK(again.ok() && *again == named);
}

void CheckUtf8(absl::string_view text) {
  const std::string_view bytes(text.data(), text.size());
  if (bytes.empty()) return;
  DP_CHECK(Utf8SequenceLength(bytes) <= 4);
  if (!IsUtf8(bytes)) return;
  constexpr size_t kCutsMax = 64;  // each cut reads all before it
  for (size_t size = 0; size <= std::min(bytes.size(), kCutsMax); ++size) {
    const std::string_view prefix = Utf8Prefix(bytes, size);
    DP_CHECK(prefix.size() <= size && prefix.size() + 4 > size && IsUtf8(prefix));
  }
}

constexpr void (*kParsers[])(absl::string_view) = {CheckHostPort, CheckLabels,   CheckNumbers,
                                                   CheckPairs,    CheckIdentity, CheckUtf8};

}  // namespace

void Run(absl::string_view input) { kParsers[TakeChoice(&input) % std::size(kParsers)](input); }

std::vector<std::string> Seeds() {
  return {Chosen(0, "10.0.0.1:7070"),
          Chosen(0, "[fd00::1]:65535"),
          Chosen(1, "rack=r1"),
          Chosen(1, "zone!=b"),
          Chosen(1, "!spot"),
          Chosen(2, "any:18446744073709551615"),
          Chosen(2, "1:10000"),
          Chosen(3, "WANDB_*\nWANDB_MODE"),
          Chosen(3, "node02\nnode2"),
          Chosen(4, "spiffe://dp/user/ann%40example.org"),
          Chosen(4, "spiffe://dp/worker/node7"),
          Chosen(5, "\x7f\xc2\x80\xe2\x82\xac\xf4\x8f\xbf\xbf")};
}

}  // namespace dp::fuzz::words
