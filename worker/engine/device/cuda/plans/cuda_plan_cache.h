#pragma once

#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace dp::engine::cuda {

// Which of a library's algorithms was found fastest for an operation of a shape. A shape is timed
// once on a kind of card; every later run uses the same algorithm and so computes the same bits. A
// choice is a text that only its plan interprets; a plan accepts only what its library still
// offers. All ranks of a host share one file. It is read when the cache is opened, and Save
// replaces it as a whole. Owned by the device; not thread-safe.
class PlanCache {
 public:
  // Reads the choices in `file` that were made in `environment`: the card's name and the libraries'
  // versions, without line breaks. An absent file gives an empty cache. Damaged lines, and all
  // lines of a file of another kind, are left out with a warning. With an empty `file` nothing is
  // read, and Save writes nothing.
  PlanCache(std::string file, std::string environment);

  absl::optional<std::string> Find(absl::string_view plan);
  // `plan` names operation, shape, types and epilogue. Neither text has a tab or a line break. Past
  // kPlanCacheSizeMax choices, new ones are dropped.
  void Put(absl::string_view plan, absl::string_view choice);
  // The choices that were found or put here, as text for Take.
  std::string Used() const;
  // Puts the choices of another process, which replace own choices of the same plan. Choices of
  // another environment and damaged lines are left out.
  void Take(absl::string_view used);
  // Writes all choices, and keeps other plans that other processes have written meanwhile. A no-op
  // if nothing was put since the last Save. Readers see the old file or the new one.
  // Errors: Internal the file cannot be written, with its path; the choices stay in memory.
  absl::Status Save();

 private:
  const std::string file_;
  const std::string environment_;
  absl::btree_map<std::string, std::string> choices_;  // plan to choice, of this environment
  absl::btree_set<std::string> used_;                  // plans
  bool unsaved_ = false;
};

// Far above the shapes of any model. A file that grows past it is damaged, or used by too many.
inline constexpr int kPlanCacheSizeMax = 4096;

// The file of this user: $DP_CUDA_PLAN_CACHE, else dp/cuda_plans in $XDG_CACHE_HOME or ~/.cache.
// Empty if none of the three locations is known, or if the first variable is set to nothing.
std::string DefaultPlanCacheFile();

}  // namespace dp::engine::cuda
