#include "worker/trainer/program/rank_outputs.h"

#include "absl/strings/str_cat.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/checkpoint/final_weights.h"
#include "worker/trainer/checkpoint/own_files.h"

namespace dp::trainer {
namespace {

constexpr char kWeightsField[] = "train.output.weights";
constexpr char kTraceField[] = "train.trace";

}  // namespace

absl::Status BlamePlace(absl::string_view field, const absl::Status& status) {
  if (status.ok() || absl::IsFailedPrecondition(status)) return status;
  return absl::Status(status.code(), absl::StrCat(field, ": ", status.message(),
                                                  "; choose a place that the host of rank 0 can "
                                                  "write to"));
}

absl::Status RankOutputs::Check(int64_t weight_bytes) const {
  if (!plan_.weights_file.empty()) {
    // The longest name that the file will have.
    const std::string suffix =
        WeightsBeside{environment_.generation, WeightsBeside::Phase::kPlacing}.Suffix(
            JobLabel(environment_.job, submitted_at_));
    DP_RETURN_IF_ERROR(BlamePlace(kWeightsField, CheckWritable(plan_.weights_file, suffix)));
    DP_RETURN_IF_ERROR(
        BlamePlace(kWeightsField, CheckPlaceOfWeights(plan_.weights_file, weight_bytes)));
  }
  if (plan_.trace_file.empty()) return absl::OkStatus();
  return BlamePlace(kTraceField, CheckWritable(plan_.trace_file));
}

absl::Status RankOutputs::WriteWeights(const RankModel& model, int64_t steps,
                                       const SafetensorsMetadata& description,
                                       client::Connection& connection, const Clock& clock,
                                       client::Pause& pause) const {
  if (plan_.weights_file.empty() && !plan_.publish_weights) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const std::string encoded, EncodeWeights(model, steps, description));
  absl::Status placed;
  if (!plan_.weights_file.empty()) {
    const WeightsPlace place{plan_.weights_file, submitted_at_};
    placed = PlaceWeights(place, encoded, environment_, connection, clock, pause);
  }
  // A generation that is over publishes nothing.
  if (absl::IsFailedPrecondition(placed)) return placed;
  const bool kept = plan_.publish_weights && Publish(encoded, steps, connection, clock, pause);
  if (placed.ok() || !kept) return BlamePlace(kWeightsField, placed);
  return BlamePlace(
      kWeightsField,
      absl::Status(placed.code(), absl::StrCat(placed.message(), "; the coordinator keeps the ",
                                               "weights: dpctl weights pull ",
                                               environment_.job.ToString(), " FILE")));
}

bool RankOutputs::Publish(const std::string& encoded, int64_t steps, client::Connection& connection,
                          const Clock& clock, client::Pause& pause) const {
  // The coordinator may lack room, or be of an earlier release.
  const absl::Status published =
      PublishWeights(encoded, steps, environment_, connection, clock, pause);
  if (!published.ok()) {
    Log(Severity::kWarning, "weights_not_published", {{"error", std::string(published.message())}});
  }
  return published.ok();
}

absl::Status RankOutputs::WriteTrace(const std::string& trace) const {
  if (plan_.trace_file.empty()) return absl::OkStatus();
  return BlamePlace(kTraceField, WriteFileAtomically(plan_.trace_file, trace));
}

}  // namespace dp::trainer
