#pragma once

#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace dp::engine::cuda {

// Which of a library's algorithms was found fastest for an operation of a shape, so that a shape is
// timed once on a kind of card and every later run computes with the same algorithm, and so with
// the same bits. Choices are texts of their plans' own making; a plan accepts only what its library
// still offers. Every rank of a host has the same file, which is read when the
// cache is opened, and replaced as a whole by Save. Owned by the device; not thread-safe.
class PlanCache {
 public:
  // The choices in `file` that were made in `environment`: the card's name and the libraries'
  // versions, without line breaks. A file that is absent, damaged or of another kind gives an empty
  // cache, and damaged lines are left out; a warning says so. `file` may be empty: nothing is read,
  // and Save writes nothing.
  PlanCache(std::string file, std::string environment);

  absl::optional<std::string> Find(absl::string_view plan);
  // `plan` names operation, shape, types and epilogue; neither text has a tab or a line break.
  // Past kPlanCacheSizeMax choices it forgets new ones.
  void Put(absl::string_view plan, absl::string_view choice);
  // The choices that were found or put here, as text for Take.
  std::string Used() const;
  // Puts the choices of another process of the same environment, in the place of its own where both
  // have one; those of another environment, and what is damaged, are left out.
  void Take(absl::string_view used);
  // Writes what was put since the last Save, beside what other processes have written meanwhile.
  // Readers see the old file or the new one. Errors: what the system refused, with the path; the
  // choices stay in memory.
  absl::Status Save();

 private:
  const std::string file_;
  const std::string environment_;
  absl::btree_map<std::string, std::string> choices_;  // plan to choice, of this environment
  absl::btree_set<std::string> used_;                  // plans
  bool unsaved_ = false;
};

// Far above the shapes of any model; a file that grows past it is damaged, or used by too many.
inline constexpr int kPlanCacheSizeMax = 4096;

// The file of this user: $DP_CUDA_PLAN_CACHE, else dp/cuda_plans in $XDG_CACHE_HOME or ~/.cache.
// Empty where none of these is set, or the first is set to nothing.
std::string DefaultPlanCacheFile();

}  // namespace dp::engine::cuda
