#include "base/node_range.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dp {
namespace {

constexpr int kNodesMax = 10'000;  // the most ranks that a job can have

}  // namespace

absl::StatusOr<NodeRange> ParseNodeRange(absl::string_view text) {
  const size_t colon = text.find(':');
  NodeRange range;
  bool good = absl::SimpleAtoi(text.substr(0, colon), &range.min);
  range.max = range.min;
  if (colon != text.npos) good = good && absl::SimpleAtoi(text.substr(colon + 1), &range.max);
  if (good && range.min >= 1 && range.max >= range.min && range.max <= kNodesMax) return range;
  return absl::InvalidArgumentError(absl::StrCat("is \"", text, "\"; expected a number from 1 to ",
                                                 kNodesMax, ", or MIN:MAX as 1:4"));
}

}  // namespace dp
