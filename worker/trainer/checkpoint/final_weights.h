#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "proto/weights/safetensors.h"
#include "worker/trainer/environment.h"
#include "worker/trainer/model/rank_model.h"

namespace dp::trainer {

// Where a job's weights go.
struct WeightsPlace {
  std::string path;
  absl::Time submitted_at;  // of the job; with its number, it names the job in temporary files
};

// Whether weights of `bytes` may take this place, and find room there. The file that lies there is
// replaced if it is one of weights. Errors: AlreadyExists it is none; ResourceExhausted the disk
// has less room.
absl::Status CheckPlaceOfWeights(const std::string& path, int64_t bytes);

// The model's weights after `steps` of a training, in the safetensors format, under the names of a
// PyTorch state_dict. `description` is that of the model, for whoever evaluates it later. Errors:
// the device's.
absl::StatusOr<std::string> EncodeWeights(const RankModel& model, int64_t steps,
                                          const SafetensorsMetadata& description);

// Writes encoded weights to their place at the end of a training.
// Registers their hash and the time of the file with the coordinator, and waits while the
// coordinator is away.
//
// The file is renamed to its place only after the coordinator has accepted it for this generation.
// The coordinator is then asked again. If it rejects this generation now, the rank was replaced
// while it was suspended, and the previous file is restored. File systems that cannot exchange two
// names, such as NFS, cannot restore it. Errors: the system's, with the path; FailedPrecondition
// the generation is over.
absl::Status PlaceWeights(const WeightsPlace& place, const std::string& encoded,
                          const Environment& environment, client::Connection& connection,
                          const Clock& clock, client::Pause& pause);

// Gives encoded weights to the coordinator, as a version of the job's parameters. Waits while the
// coordinator is away. Errors: those of client::Parameters::Push.
absl::Status PublishWeights(const std::string& encoded, int64_t steps,
                            const Environment& environment, client::Connection& connection,
                            const Clock& clock, client::Pause& pause);

}  // namespace dp::trainer
