#pragma once

#include <string>
#include <vector>

#include "base/mutex.h"
#include "client/connection.h"

namespace dp::trainer {

// The coordinator's record of one job's checkpoints. Calls are thread-safe. A test sets the public
// members before the calls and reads them afterwards.
class FakeCheckpoints final : public client::CheckpointsConnection {
 public:
  // If not OK, the answer to every registration.
  absl::Status refusal;
  // If not OK, the answer to every registration of weights after the first.
  absl::Status refusal_of_next;
  std::vector<v1::Checkpoint> on_record;  // newest first
  v1::Weights weights;

  absl::StatusOr<v1::RegisterCheckpointResponse> RegisterCheckpoint(
      const v1::RegisterCheckpointRequest& request, absl::Duration) override {
    MutexLock lock(mu_);
    if (!refusal.ok()) return refusal;
    on_record.insert(on_record.begin(), request.checkpoint());
    on_record.front().set_generation(request.generation());
    if (on_record.size() > static_cast<size_t>(request.keep())) on_record.resize(request.keep());
    v1::RegisterCheckpointResponse response;
    for (const v1::Checkpoint& one : on_record) *response.add_checkpoints() = one;
    return response;
  }
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest&,
                                                              absl::Duration) override {
    return absl::UnimplementedError("");
  }
  absl::StatusOr<v1::RegisterWeightsResponse> RegisterWeights(
      const v1::RegisterWeightsRequest& request, absl::Duration) override {
    MutexLock lock(mu_);
    if (!refusal.ok()) return refusal;
    if (!weights.path().empty() && !refusal_of_next.ok()) return refusal_of_next;
    weights = request.weights();
    return v1::RegisterWeightsResponse();
  }

 private:
  Mutex mu_;
};

}  // namespace dp::trainer
