#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/engine/collectives/group.h"

namespace dp::trainer {

// Does what rank 0 has to do at the end of a training, which may take long, while no rank leaves:
// `work` runs on a thread of its own, and until it is done all ranks meet in the group again and
// again. So a rank 0 that dies or stands still is missed by its peers as in any step. Every rank
// calls it; `work` is called on rank 0 only. `meet_every` is to be well below the group's deadline.
//
// Returns, on rank 0, what `work` did: it goes on where a peer is lost, who fails by itself. Errors
// on the others: those of the group.
absl::Status FinishTogether(engine::Group& group, absl::Duration meet_every,
                            const std::function<absl::Status()>& work);

}  // namespace dp::trainer
