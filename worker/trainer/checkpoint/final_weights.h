#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// Writes the model's weights to `path` at the end of a training, in the safetensors format, and
// registers their hash with the coordinator. Waits while the coordinator is away.
//
// The file is renamed to `path` only after the coordinator has accepted it for this generation. The
// coordinator is then asked again. If it rejects this generation now, the rank was replaced while
// it was suspended, and the previous file is restored. File systems that cannot exchange two names,
// such as NFS, cannot restore it. Errors: the system's, with the path; FailedPrecondition the
// generation is over.
absl::Status PublishWeights(const std::string& path, const RankModel& model,
                            const Environment& environment, client::Connection& connection,
                            const Clock& clock, client::Pause& pause);

}  // namespace dp::trainer
