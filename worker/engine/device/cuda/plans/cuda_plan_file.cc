#include "worker/engine/device/cuda/plans/cuda_plan_file.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "worker/engine/device/cuda/plans/cuda_plan_cache.h"

namespace dp::engine::cuda {
namespace {

constexpr absl::string_view kFirstLine = "dp cuda plans 1";

// FNV-1a, because the hash is to find damage, not malice.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

std::string HashText(absl::string_view text) {
  return absl::StrCat(absl::Hex(Hash(text), absl::kZeroPad16));
}

bool IsPart(absl::string_view text) { return text.find_first_of("\t\n") == text.npos; }

bool ParseLine(absl::string_view line, PlanChoice* choice) {
  const size_t tab = line.find('\t');
  if (tab == line.npos || line.substr(0, tab) != HashText(line.substr(tab + 1))) return false;
  const std::vector<std::string> parts = absl::StrSplit(line.substr(tab + 1), '\t');
  if (parts.size() != 3) return false;
  *choice = {parts[0], parts[1], parts[2]};
  return true;
}

}  // namespace

std::string PrintPlanFile(const std::vector<PlanChoice>& choices) {
  std::string text = absl::StrCat(kFirstLine, "\n");
  for (const PlanChoice& each : choices) {
    DP_CHECK(IsPart(each.environment) && IsPart(each.plan) && IsPart(each.choice));
    const std::string parts = absl::StrCat(each.environment, "\t", each.plan, "\t", each.choice);
    absl::StrAppend(&text, HashText(parts), "\t", parts, "\n");
  }
  return text;
}

PlanFile ParsePlanFile(absl::string_view text) {
  PlanFile file;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines[0] != kFirstLine) return {.damaged = 1};
  // PrintPlanFile ends its text with a line break, which leaves an empty piece.
  if (lines.back().empty()) lines.pop_back();
  for (size_t i = 1; i < lines.size() && file.choices.size() < kPlanCacheSizeMax; ++i) {
    PlanChoice choice;
    if (ParseLine(lines[i], &choice)) {
      file.choices.push_back(std::move(choice));
    } else {
      ++file.damaged;
    }
  }
  return file;
}

}  // namespace dp::engine::cuda
