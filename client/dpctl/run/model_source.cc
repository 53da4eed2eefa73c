#include "client/dpctl/run/model_source.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/run/job_source.h"
#include "client/dpctl/view/checkpoint_view.h"
#include "client/job/job_file.h"
#include "client/parameters.h"
#include "client/weights/kept_weights.h"
#include "proto/convert/time.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"

namespace dp::ctl {
namespace {

constexpr int kThreadsMax = 1024;  // as of threadsPerRank

std::string Absolute(const Context& context, const std::string& path) {
  return (std::filesystem::path(context.surroundings().working_dir) / path).lexically_normal();
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Whether the file at the place is the job's own. Another job may have put its file there since,
// which has another time.
bool IsFileOf(const v1::Weights& weights) {
  struct stat info {};
  if (stat(weights.path().c_str(), &info) != 0) return false;
  return !weights.has_modified_at() ||
         FromProto(weights.modified_at()) == absl::TimeFromTimespec(info.st_mtim);
}

// The place of rank 0, which wrote the files.
std::string WriterOf(const v1::Job& job) {
  for (const v1::Rank& rank : job.ranks()) {
    if (rank.rank() == 0 && !rank.worker().empty()) {
      return absl::StrCat("worker ", rank.worker(), " (host ", rank.host(), ")");
    }
  }
  return "the worker of its rank 0";
}

absl::Status NotHere(const v1::Job& job, const std::string& path) {
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id(), " left its weights in ", path, " on ", WriterOf(job),
                   ", and this host has no such file; run dpctl there, or copy the file here and "
                   "give its path in place of the job"));
}

absl::Status WhyNoWeights(const v1::Job& job) {
  if (!Finished(job.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(),
                     " is not over, and has no checkpoint on record; its weights "
                     "come at its end ('dpctl wait ",
                     job.id(), "')"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id(),
                   " has left no weights; give it train.output.weights or train.checkpoint, or let "
                   "train.output.publish be true, and run it again"));
}

// The job of a file, with its defaults, so that a mistake is told with its line.
absl::StatusOr<v1::JobSpec> ReadModelJob(const Context& context, const std::string& path) {
  absl::StatusOr<client::JobFile> job =
      client::ReadJobFile(path, {}, context.surroundings().interrupts.descriptor());
  if (absl::IsNotFound(job.status())) return absl::InvalidArgumentError(job.status().message());
  DP_RETURN_IF_ERROR(job.status());
  if (!job->spec.has_train()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model: ", path, " has no train section, which describes a model"));
  }
  CompletePaths(context.surroundings().working_dir, *job->spec.mutable_train());
  FillDefaults(job->source, job->spec);
  DP_RETURN_IF_ERROR(
      CheckJob(job->spec, job->source, [](const v1::DataSpec&) { return std::nullopt; }));
  return std::move(job->spec);
}

}  // namespace

void ModelSource::DefineFlags(CLI::App& app) {
  app.add_option("WEIGHTS", model_,
                 "A job (id or name), a file of weights, or the directory of a checkpoint")
      ->required();
  app.add_option("--model", job_file_,
                 "Job file of the model, for a file that does not describe it")
      ->type_name("FILE");
  app.add_option("--threads", threads_,
                 "Compute threads; default: those of a rank of the training. Others change bits")
      ->check(CLI::Range(1, kThreadsMax))
      ->type_name("NUMBER");
}

bool ModelSource::NamesFile() const {
  return absl::StrContains(model_, "/") || absl::EndsWith(model_, ".safetensors") || Exists(model_);
}

absl::StatusOr<v1::TrainedWeights> ModelSource::Find(Context& context) {
  DP_ASSIGN_OR_RETURN(v1::TrainedWeights weights, NamesFile() ? OfFile(context) : OfJob(context));
  weights.set_threads(threads_);
  if (job_file_.empty()) return weights;
  DP_ASSIGN_OR_RETURN(*weights.mutable_job(), ReadModelJob(context, job_file_));
  weights.set_load_plugins(true);
  return weights;
}

absl::StatusOr<v1::TrainedWeights> ModelSource::OfFile(const Context& context) const {
  v1::TrainedWeights weights;
  weights.set_path(Absolute(context, model_));
  if (Exists(weights.path())) return weights;
  return absl::InvalidArgumentError(absl::StrCat("'", model_, "' is no file of this host"));
}

absl::Status ModelSource::TakeFinal(Context& context, const v1::Job& job,
                                    v1::TrainedWeights& weights) {
  weights.set_path(job.weights().path());
  weights.set_sha256(job.weights().sha256());
  if (job.has_weights() && IsFileOf(job.weights())) return absl::OkStatus();
  DP_RETURN_IF_ERROR(scratch_.Make());
  weights.set_path(scratch_.Of(absl::StrCat("job-", job.id(), ".safetensors")));
  client::Parameters parameters(context.coordinator(), context.pause());
  return client::PullWeights(parameters, {.job = job.id()}, /*version=*/0, weights.path()).status();
}

// The final weights; without any, the newest checkpoint.
absl::StatusOr<v1::TrainedWeights> ModelSource::OfJob(Context& context) {
  DP_ASSIGN_OR_RETURN(const v1::Job job, FindJob(context, model_));
  if (!job.spec().has_train()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(),
                     " runs a program of its own, whose model dp does not know; only train jobs "
                     "have one"));
  }
  v1::TrainedWeights weights;
  *weights.mutable_job() = job.spec();
  const bool done = job.state() == v1::JOB_STATE_SUCCEEDED;
  if (done) {
    const absl::Status taken = TakeFinal(context, job, weights);
    if (taken.ok()) return weights;
    // Coordinators of earlier releases keep none.
    if (!absl::IsNotFound(taken) && !absl::IsUnimplemented(taken)) return taken;
    weights.set_path(job.weights().path());
    if (job.has_weights() && !Exists(weights.path())) return NotHere(job, weights.path());
    if (job.has_weights()) return weights;  // the trainer says that it is another file
  }
  if (!job.has_checkpoint()) return WhyNoWeights(job);
  weights.set_path(job.checkpoint().path());
  weights.set_sha256(job.checkpoint().sha256());
  if (!Exists(weights.path())) return NotHere(job, weights.path());
  return weights;
}

void DefineBpeFlags(CLI::App& app, v1::DataPlaces& places) {
  app.add_option("--bpe-vocab", *places.mutable_bpe_vocab(),
                 "vocab.json of a text's encoding; default: the job's")
      ->type_name("FILE");
  app.add_option("--bpe-merges", *places.mutable_bpe_merges(), "Its merges.txt")->type_name("FILE");
}

void CompletePlaces(const Context& context, v1::DataPlaces& places) {
  for (std::string* path :
       {places.mutable_data(), places.mutable_labels(), places.mutable_targets(),
        places.mutable_bpe_vocab(), places.mutable_bpe_merges()}) {
    if (!path->empty()) *path = Absolute(context, *path);
  }
}

}  // namespace dp::ctl
