#include "store/unmet.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dp {
namespace {

constexpr size_t kBytesShown = 64;
constexpr size_t kNamed = 10;

}  // namespace

std::string PrintableKey(absl::string_view key) {
  return absl::StrCat("'", absl::CHexEscape(key.substr(0, kBytesShown)),
                      key.size() > kBytesShown ? "...'" : "'");
}

std::string Describe(const Unmet& unmet) {
  const std::string key = PrintableKey(unmet.key);
  switch (unmet.what) {
    case Unmet::What::kKey:
      return absl::StrCat("key ", key);
    case Unmet::What::kQueue:
      return absl::StrCat("queue ", key);
    case Unmet::What::kBarrier:
      return absl::StrCat("barrier ", key, " (", unmet.arrived, " of ", unmet.count,
                          " have arrived)");
    case Unmet::What::kChange:
      return absl::StrCat("change of key ", key);
  }
  return key;
}

std::string Describe(absl::Span<const Unmet> unmet) {
  const auto named = unmet.subspan(0, std::min(unmet.size(), kNamed));
  std::string text = absl::StrJoin(
      named, ", ", [](std::string* out, const Unmet& one) { absl::StrAppend(out, Describe(one)); });
  if (unmet.size() > kNamed) absl::StrAppend(&text, " and ", unmet.size() - kNamed, " more");
  return text;
}

absl::Status StillMissing(absl::Span<const Unmet> unmet, absl::Duration waited) {
  return absl::DeadlineExceededError(
      absl::StrCat("still missing after ", absl::FormatDuration(waited), ": ", Describe(unmet)));
}

}  // namespace dp
