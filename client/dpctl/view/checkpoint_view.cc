#include "client/dpctl/view/checkpoint_view.h"

#include <ostream>

#include "client/dpctl/view/printable.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

// Weights are recorded before their file is in place; a job that has succeeded has put it there.
bool AreFinal(const v1::Job& job) { return job.state() == v1::JOB_STATE_SUCCEEDED; }

}  // namespace

absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(Context& context, uint64_t job) {
  v1::ListCheckpointsRequest request;
  request.set_job(job);
  return context.Call(&v1::Checkpoints::Stub::List, request);
}

void WriteCheckpoint(const v1::Checkpoint& checkpoint, JsonWriter& json) {
  json.BeginObject();
  json.Field("step", checkpoint.step());
  json.Field("generation", checkpoint.generation());
  json.Field("path", checkpoint.path());
  json.Field("sha256", checkpoint.sha256());
  json.Field("bytes", checkpoint.bytes());
  json.Field("at",
             absl::FormatTime(absl::RFC3339_full, FromProto(checkpoint.at()), absl::UTCTimeZone()));
  json.TextOrNull("best", checkpoint.best());
  json.EndObject();
}

void WriteLeft(const v1::Job& job, JsonWriter& json) {
  json.Key("checkpoint");
  job.has_checkpoint() ? WriteCheckpoint(job.checkpoint(), json) : json.Null();
  json.Key("bestCheckpoint");
  job.has_best_checkpoint() ? WriteCheckpoint(job.best_checkpoint(), json) : json.Null();
  json.Key("weights");
  if (!job.has_weights()) return json.Null();
  json.BeginObject();
  json.Field("path", job.weights().path());
  json.Field("sha256", job.weights().sha256());
  json.Field("bytes", job.weights().bytes());
  json.Field("final", AreFinal(job));
  json.EndObject();
}

void DescribeLeft(const v1::Job& job, std::ostream& out) {
  if (!job.handover().empty()) out << "Handover:    " << job.handover() << '\n';
  if (job.has_checkpoint()) {
    out << "Checkpoint:  step " << job.checkpoint().step() << ", " << job.checkpoint().path()
        << '\n';
  }
  if (job.has_best_checkpoint()) {
    out << "  best:      step " << job.best_checkpoint().step() << ", "
        << Printable(job.best_checkpoint().best()) << ", " << job.best_checkpoint().path() << '\n';
  }
  if (job.has_weights()) {
    out << "Weights:     " << job.weights().path()
        << (AreFinal(job) ? "" : ", not final: the job has not succeeded")
        << "\n  sha256:    " << job.weights().sha256() << '\n';
  }
}

}  // namespace dp::ctl
