#include "client/dpctl/run/file_places.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "google/protobuf/util/json_util.h"
#include "proto/convert/time.h"
#include "proto/job/trainer_program.h"

namespace dp::ctl {
namespace {

// Reading hundreds of gigabytes of checkpoints for their hashes takes less. A known end lets the
// job go ahead of others in the queue.
constexpr absl::Duration kRemovalMax = absl::Hours(1);
// How long the record of the removal stays if dpctl is killed before it removes the record.
constexpr absl::Duration kRecordKept = absl::Hours(1);

std::string PathsOf(const v1::Job& job) {
  const v1::TrainSpec& train = job.spec().train();
  const std::string& weights = train.output().weights();
  if (!train.has_checkpoint()) return weights;
  return absl::StrCat(train.checkpoint().dir(), weights.empty() ? "" : " and ", weights);
}

// Why a worker gets no rank; empty: it may get one.
std::string WhyUnusable(const v1::Worker& worker) {
  switch (worker.state()) {
    case v1::WORKER_STATE_READY:
      return "";
    case v1::WORKER_STATE_DRAINING:
    case v1::WORKER_STATE_DRAINED:
      return "is drained";
    case v1::WORKER_STATE_LEAVING:
      return "is shutting down";
    default:
      return "is lost";
  }
}

absl::Status Unusable(const v1::Job& job, absl::string_view where, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job.id(), ": its files ", PathsOf(job), " are on ", where, ", which ", why,
      "; wait until it is back, name a worker that sees the same files with --files-on, or "
      "leave out --with-files, which removes the record alone"));
}

class Places {
 public:
  Places(const v1::Job& job, const v1::ListWorkersResponse& workers)
      : job_(job), workers_(workers) {}

  absl::Status AddWorker(const std::string& name, const std::string& host) {
    const v1::Worker* const worker =
        Find([&](const v1::Worker& each) { return each.name() == name && each.host() == host; });
    const std::string why = worker == nullptr ? "is unknown" : WhyUnusable(*worker);
    if (why.empty()) return Add(*worker);
    if (const v1::Worker* other = UsableOn(host)) return Add(*other);
    return Unusable(job_, absl::StrCat("worker ", name, " (host ", host, ")"), why);
  }
  absl::Status AddHost(const std::string& host) {
    if (std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end()) return absl::OkStatus();
    if (const v1::Worker* worker = UsableOn(host)) return Add(*worker);
    return Unusable(job_, absl::StrCat("host ", host), "has no worker that may get a rank");
  }

  std::vector<std::string> names() && { return std::move(names_); }

 private:
  template <typename Predicate>
  const v1::Worker* Find(Predicate matches) const {
    const auto& all = workers_.workers();
    const auto found = std::find_if(all.begin(), all.end(), matches);
    return found == all.end() ? nullptr : &*found;
  }
  const v1::Worker* UsableOn(const std::string& host) const {
    return Find(
        [&](const v1::Worker& each) { return each.host() == host && WhyUnusable(each).empty(); });
  }
  absl::Status Add(const v1::Worker& worker) {
    names_.push_back(worker.name());
    hosts_.push_back(worker.host());
    return absl::OkStatus();
  }

  const v1::Job& job_;
  const v1::ListWorkersResponse& workers_;
  std::vector<std::string> names_;
  std::vector<std::string> hosts_;
};

// The argument of `dp-trainer remove-files`.
std::string RemovalArgument(const v1::Job& job, bool dry_run) {
  const v1::TrainSpec& train = job.spec().train();
  v1::FileRemoval removal;
  removal.set_job(job.id());
  *removal.mutable_submitted_at() = job.submitted_at();
  removal.set_checkpoint_dir(train.checkpoint().dir());
  removal.set_weights_path(train.output().weights());
  if (job.has_weights()) *removal.mutable_weights() = job.weights();
  removal.set_dry_run(dry_run);
  std::string json;
  DP_CHECK(google::protobuf::util::MessageToJsonString(removal, &json).ok());
  return json;
}

bool Covers(const std::vector<FileOnWorker>& files, const std::string& path) {
  return std::any_of(files.begin(), files.end(), [&](const FileOnWorker& file) {
    const std::string& found = file.outcome.path();
    return found == path || absl::StartsWith(found, absl::StrCat(path, "/"));
  });
}

std::vector<std::string> PathsOnRecord(const v1::Job& job,
                                       const v1::ListCheckpointsResponse& checkpoints) {
  std::vector<std::string> paths;
  for (const v1::Checkpoint& each : checkpoints.checkpoints()) paths.push_back(each.path());
  if (job.has_weights()) paths.push_back(job.weights().path());
  return paths;
}

}  // namespace

bool MayHaveFiles(const v1::Job& job) {
  return job.spec().has_train() && job.generation() > 0 && !PathsOf(job).empty();
}

std::vector<FileOnWorker> FilesThatStay(const v1::Job& job,
                                        const v1::ListCheckpointsResponse& checkpoints) {
  std::vector<FileOnWorker> files;
  const auto add = [&](const std::string& path, const char* why) {
    v1::FileOutcome& outcome = files.emplace_back().outcome;
    outcome.set_kind(v1::FileOutcome::KIND_LEFT);
    outcome.set_path(path);
    outcome.set_reason(why);
  };
  if (job.spec().has_command()) {
    for (const std::string& path : PathsOnRecord(job, checkpoints)) {
      add(path, "the program of the job wrote it, not dp");
    }
  }
  const std::string& trace = job.spec().train().trace();
  if (!trace.empty() && job.generation() > 0) add(trace, "a trace does not say whose it is");
  return files;
}

absl::StatusOr<std::vector<std::string>> WorkersOfFiles(const v1::Job& job,
                                                        const std::vector<std::string>& hosts,
                                                        const v1::ListWorkersResponse& workers,
                                                        const std::string& instead) {
  Places places(job, workers);
  if (!instead.empty()) {
    for (const v1::Worker& worker : workers.workers()) {
      if (worker.name() != instead) continue;
      const std::string why = WhyUnusable(worker);
      if (why.empty()) return std::vector<std::string>{instead};
      return absl::FailedPreconditionError(absl::StrCat(
          "worker ", instead, " ", why, "; give --files-on a worker that is READY, or wait"));
    }
    return absl::NotFoundError(absl::StrCat("no worker has the name '", instead, "'"));
  }
  if (job.ranks_size() > 0) {
    DP_RETURN_IF_ERROR(places.AddWorker(job.ranks(0).worker(), job.ranks(0).host()));
  }
  for (const std::string& host : hosts) DP_RETURN_IF_ERROR(places.AddHost(host));
  return std::move(places).names();
}

v1::JobSpec RemovalSpec(const v1::Job& job, const std::string& worker, bool dry_run) {
  v1::JobSpec spec;
  spec.set_api_version("dp/v1");
  spec.set_kind("Job");
  spec.set_name(absl::StrCat("remove-files-of-", job.id()));
  spec.set_ranks(1);
  spec.set_queue(job.spec().queue());
  spec.add_constraints(absl::StrCat("worker=", worker));
  *spec.mutable_max_duration() = ToProto(kRemovalMax);
  *spec.mutable_ttl_after_finish() = ToProto(kRecordKept);
  // dpctl waits for it, and asks again if it fails.
  v1::RestartSpec& restart = *spec.mutable_restart();
  restart.set_infra(0);
  restart.set_hang(0);
  restart.set_startup(0);
  v1::CommandSpec& command = *spec.mutable_command();
  command.add_argv(kTrainerProgram);
  command.add_argv("remove-files");
  command.add_argv(RemovalArgument(job, dry_run));
  command.set_working_dir("/");
  command.set_contract("plain");
  return spec;
}

std::vector<std::string> NotFoundAmong(const std::vector<FileOnWorker>& files, const v1::Job& job,
                                       const v1::ListCheckpointsResponse& checkpoints) {
  std::vector<std::string> paths = PathsOnRecord(job, checkpoints);
  std::erase_if(paths, [&](const std::string& path) { return Covers(files, path); });
  return paths;
}

}  // namespace dp::ctl
