#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/rank_model.h"

namespace dp::trainer {

// The end of a training: writes the model's weights to `path`, in the safetensors format, and tells
// the coordinator their hash. The file takes its place only after the coordinator has said that
// this generation may, and stays there only where it then says so again: a rank that was given up
// on in between, and slept, gives back what its successors have written. (Not where the file system
// cannot exchange two names, as NFS; there it has replaced that.)
// Waits for a coordinator that is away. Errors: the system's, with the path; FailedPrecondition the
// generation is over.
absl::Status PublishWeights(const std::string& path, const RankModel& model,
                            const Environment& environment,
                            client::CheckpointsConnection& connection, const Clock& clock,
                            client::Pause& pause);

}  // namespace dp::trainer
