#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dp::engine::cuda {

// A choice as it stands in the file of a PlanCache.
struct PlanChoice {
  std::string environment;
  std::string plan;
  std::string choice;

  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

struct PlanFile {
  std::vector<PlanChoice> choices;
  int damaged = 0;  // lines left out, a first line of another kind counted
};

// The file as text: a first line that says what it is, then a line for each choice, its parts and
// before them their hash, with tabs between.
std::string PrintPlanFile(const std::vector<PlanChoice>& choices);

// Whatever the text is: lines whose hash does not fit are left out, and all of them where the first
// line is not this file's. Stops after kPlanCacheSizeMax choices.
PlanFile ParsePlanFile(absl::string_view text);

}  // namespace dp::engine::cuda
