#include "client/job/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace dp::client {
namespace {

// No field name is that long; this bounds the work on a hostile file.
constexpr size_t kNameBytesMax = 64;

std::string Folded(absl::string_view name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(name.substr(0, kNameBytesMax), {{"_", ""}}));
}

// The optimal string alignment distance: Levenshtein's with swaps of neighbours.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

// How many letters both begin with.
size_t BeginsAlike(absl::string_view a, absl::string_view b) {
  const size_t shorter = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + shorter, b.begin()).first - a.begin();
}

}  // namespace

std::string NearestName(absl::string_view wrong, const std::vector<std::string>& names) {
  const std::string folded = Folded(wrong);
  // A name whose distance exceeds a third of the letters is another word.
  size_t nearest = std::max<size_t>(1, folded.size() / 3) + 1;
  std::string answer;
  for (const std::string& name : names) {
    const size_t distance = Distance(folded, Folded(name));
    const bool nearer = distance < nearest;
    // Among equally near names the first letters decide: "prun" is short for "prune", not "run".
    const bool alike = distance == nearest && !answer.empty() &&
                       BeginsAlike(folded, Folded(name)) > BeginsAlike(folded, Folded(answer));
    if (!nearer && !alike) continue;
    nearest = distance;
    answer = name;
  }
  return answer;
}

}  // namespace dp::client
