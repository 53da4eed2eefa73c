#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/group.h"

namespace dp::trainer {

// Runs rank 0's work at the end of a training, which may take long, while all ranks stay in the
// group. `work` runs on a thread of its own, on rank 0 only. Until it returns, all ranks repeat a
// small all-reduce. The peers thus notice a rank 0 that dies or hangs, as in any step. Every rank
// calls this. `meet_every` must be well below the group's deadline.
//
// Rank 0 returns the result of `work`, even if a peer is lost meanwhile: that peer fails by itself.
// The other ranks return the group's errors.
absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work);

}  // namespace dp::trainer
