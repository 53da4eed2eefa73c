#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// Makes `values` (parameters, or buffers, in `layout`), of where the ranks compute, rank 0's on
// every rank, after a check that
// the layouts agree. Every rank calls it. Errors: FailedPrecondition names the first parameter that
// differs, the ranks and both shapes, the same on all ranks; the group's errors.
absl::Status AlignReplicas(Group& group, const ParameterLayout& layout, absl::Span<float> values);

}  // namespace dp::engine
