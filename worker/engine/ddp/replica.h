#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/collectives/group.h"
#include "worker/engine/nn/parameter.h"

namespace dp::engine {

// Checks that every rank has the same `lines`: "conv2d0.weight 32x1x3x3", one for each of the
// model's values of a `kind`, "parameter" or "buffer". Every rank calls it.
// Errors: FailedPrecondition names the first line that differs, the ranks and both lines, alike on
// all ranks; the group's errors.
absl::Status CheckReplicasAgree(Group& group, absl::string_view kind, const std::string& lines);

// Copies rank 0's `values` to every rank, after a check that the layouts agree. The values are
// parameters or buffers in `layout`, in the memory where the ranks compute. Every rank calls it.
// Errors: as CheckReplicasAgree.
absl::Status AlignReplicas(Group& group, const ParameterLayout& layout, absl::Span<float> values);

}  // namespace dp::engine
