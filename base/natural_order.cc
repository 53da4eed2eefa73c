#include "base/natural_order.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace dp {
namespace {

// Removes the run of digits at the front of `text`. Returns it without leading zeros.
absl::string_view TakeNumber(absl::string_view& text) {
  size_t end = 0;
  while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
  absl::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

// Negative, zero or positive: `a` comes before, with or after `b`.
int Compare(absl::string_view a, absl::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (absl::ascii_isdigit(a.front()) && absl::ascii_isdigit(b.front())) {
      const absl::string_view m = TakeNumber(a), n = TakeNumber(b);
      if (m.size() != n.size()) return m.size() < n.size() ? -1 : 1;
      if (const int order = m.compare(n); order != 0) return order;
    } else if (a.front() != b.front()) {
      return a.front() < b.front() ? -1 : 1;
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return static_cast<int>(b.empty()) - static_cast<int>(a.empty());
}

}  // namespace

bool NaturallyLess(absl::string_view a, absl::string_view b) {
  const int order = Compare(a, b);
  return order != 0 ? order < 0 : a < b;
}

}  // namespace dp
