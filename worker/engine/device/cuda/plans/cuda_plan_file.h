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
  int damaged = 0;  // lines left out; a first line of another kind counts as one
};

// The file as text: a first line that identifies it, then a line for each choice. A line has the
// hash of the choice's parts, then the parts, separated by tabs.
std::string PrintPlanFile(const std::vector<PlanChoice>& choices);

// Takes any text. Leaves out lines whose hash does not match, and all lines if the first line is
// not this file's. Stops after kPlanCacheSizeMax choices.
PlanFile ParsePlanFile(absl::string_view text);

}  // namespace dp::engine::cuda
