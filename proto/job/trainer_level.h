#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dp/v1/job_spec.pb.h"

// Which trainers understand a job. A trainer of an earlier release ignores the fields that it does
// not know, so such a job must not run there. Pure.

namespace dp {

// The level of this release's trainer. It understands all lower levels.
inline constexpr int kTrainerLevel = 1;

// A field, or a value of a field, that trainers below `level` do not know.
struct LaterField {
  int level = 0;
  absl::string_view field;       // its full name, such as "dp.v1.TrainSpec.schedule"
  absl::string_view value = "";  // of a field with text; empty: every value
  // A whole number counts if it is above this, and a list if it has more elements.
  int64_t above = 0;
};

// The one table of them. Level 0 is that of the release before levels.
absl::Span<const LaterField> LaterFields();

// The level that a trainer of this section needs: the highest of the fields that are set in it.
int TrainerLevelFor(const v1::TrainSpec& train);

}  // namespace dp
