#include "client/dpctl/run/file_removal.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/request_id.h"
#include "client/dpctl/run/file_places.h"
#include "client/dpctl/view/checkpoint_view.h"
#include "client/dpctl/view/log_reader.h"
#include "client/dpctl/view/printable.h"
#include "dp/v1/access.grpc.pb.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "google/protobuf/util/json_util.h"
#include "proto/job/trainer_program.h"

namespace dp::ctl {
namespace {

absl::Status CheckOver(const v1::Job& job) {
  if (Finished(job.state())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id(), " is ", NameOf(job.state()), ", not over; cancel it first"));
}

// A dry run is refused as the removal would be. Errors: PermissionDenied; as Context::Call.
absl::Status CheckMayRemove(Context& context) {
  DP_ASSIGN_OR_RETURN(const v1::WhoAmIResponse caller, context.Call(&v1::Access::Stub::WhoAmI, {}));
  if (caller.role() != "viewer" && caller.role() != "worker" && caller.role() != "rank") {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat("you are ", caller.role(), " ", caller.name(),
                   ", who may not remove jobs; administrators and users may"));
}

// Errors: FailedPrecondition a job that is not over would lose the checkpoint that it goes on from.
absl::Status CheckNoHeir(Context& context, const v1::Job& job) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : {v1::JOB_STATE_PENDING, v1::JOB_STATE_STARTING,
                                   v1::JOB_STATE_RUNNING, v1::JOB_STATE_STOPPING}) {
    request.add_states(state);
  }
  DP_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, ListJobs(context, request));
  for (const v1::Job& heir : jobs) {
    const bool needs = heir.spec().train().resume().job() == job.id() && !heir.has_checkpoint();
    if (!needs) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", heir.id(), " goes on from a checkpoint of job ", job.id(),
                     "; wait until it has a checkpoint of its own, or cancel it"));
  }
  return absl::OkStatus();
}

// The hosts on which rank 0 ran in any generation, as its output names them.
absl::StatusOr<std::vector<std::string>> HostsOfRankZero(Context& context, const v1::Job& job) {
  v1::ReadLogsRequest request;
  request.set_job(job.id());
  request.add_ranks(0);
  request.set_tail_lines(1);
  for (const auto stream : {v1::LOG_STREAM_STDOUT, v1::LOG_STREAM_STDERR, v1::LOG_STREAM_METRICS}) {
    request.add_streams(stream);
  }
  std::set<std::string> hosts;
  while (true) {
    DP_ASSIGN_OR_RETURN(v1::ReadLogsResponse page, context.Call(&v1::Logs::Stub::Read, request));
    for (const v1::LogChunk& chunk : page.chunks()) {
      if (!chunk.host().empty()) hosts.insert(chunk.host());
    }
    if (page.finished() || page.chunks().empty()) break;
    *request.mutable_from() = std::move(*page.mutable_next());
  }
  return std::vector<std::string>(hosts.begin(), hosts.end());
}

// Errors: PermissionDenied the caller may not remove the files; as Context::Call.
absl::StatusOr<v1::Job> SubmitRemoval(Context& context, const v1::Job& job, v1::JobSpec spec) {
  v1::SubmitRequest request;
  request.set_request_id(NewRequestId());
  // The coordinator lets only administrators name somebody else.
  request.set_user(job.user().empty() ? context.surroundings().user : job.user());
  *request.mutable_spec() = std::move(spec);
  absl::StatusOr<v1::SubmitResponse> response = context.Call(&v1::Jobs::Stub::Submit, request);
  if (response.ok()) return std::move(*response->mutable_job());
  // The coordinator's error is about the submission, of which the caller knows nothing.
  if (!absl::IsPermissionDenied(response.status())) return response.status();
  return absl::PermissionDeniedError(
      absl::StrCat("the files of job ", job.id(),
                   " may be listed and removed by its owner and by administrators only, so the job "
                   "stays on record; 'dpctl whoami' shows your role"));
}

// Waits for the end of the job that removes files. Says once why it waits, and gives up if it would
// wait for more than a busy worker. Errors: FailedPrecondition it cannot start; as AwaitJob.
absl::StatusOr<v1::Job> AwaitRemoval(Context& context, const v1::Job& removal) {
  std::string said;
  bool hopeless = false;
  const auto changed = [&](const v1::Job& job) {
    if (job.state() != v1::JOB_STATE_PENDING) return true;
    for (const v1::PendingReason& reason : job.waits_for()) {
      hopeless |= reason.code() == v1::PENDING_CODE_UNSATISFIABLE ||
                  reason.code() == v1::PENDING_CODE_DRAIN;
    }
    const std::string why = Printable(absl::StrJoin(job.pending_reasons(), "; "));
    if (!why.empty() && why != said) {
      context.err() << "dpctl: job " << job.id() << ", which removes the files, waits: " << why
                    << std::endl;
    }
    said = why;
    return !hopeless;
  };
  DP_ASSIGN_OR_RETURN(v1::Job end, AwaitJob(context, removal.id(), kPatience,
                                            absl::InfiniteDuration(), changed, removal));
  if (!hopeless || Finished(end.state())) return end;
  return absl::FailedPreconditionError(
      absl::StrCat("the job that removes the files cannot start: ", said));
}

absl::Status ReadOutcomes(Context& context, uint64_t removal, const std::string& worker,
                          std::vector<FileOnWorker>* files) {
  v1::ReadLogsRequest request;
  request.set_job(removal);
  request.add_streams(v1::LOG_STREAM_STDOUT);
  LogReader reader(context, request, kPatience, LogLines::Bars::kWhole);
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // the worker may be of a later release
  do {
    DP_ASSIGN_OR_RETURN(const std::vector<LogLine> lines, reader.Next(/*follow=*/true));
    for (const LogLine& line : lines) {
      FileOnWorker file{worker, {}};
      const auto parsed =
          google::protobuf::util::JsonStringToMessage(line.text, &file.outcome, options);
      if (parsed.ok()) files->push_back(std::move(file));
    }
  } while (!reader.at_end());
  return absl::OkStatus();
}

// The error of a removal that did not succeed.
absl::Status WhyNotRemoved(const v1::Job& job, const v1::Job& removal, const std::string& worker,
                           const std::vector<FileOnWorker>& files) {
  const auto failed = std::count_if(files.begin(), files.end(), [](const FileOnWorker& file) {
    return file.outcome.kind() == v1::FileOutcome::KIND_FAILED;
  });
  if (failed > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " stays on record, because ", failed,
                     " of its files could not be removed; try again, or leave out --with-files"));
  }
  const bool unknown = removal.failure().failure_class() == v1::FAILURE_CLASS_STARTUP &&
                       absl::StrContains(removal.failure().message(), kTrainerProgram);
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id(), " stays on record, because its files on worker ", worker,
                   " were not removed: ", removal.failure().message(),
                   unknown ? " (a dp-worker of an earlier release cannot remove files)" : "",
                   "; try again, name a worker that sees the same files with --files-on, or leave "
                   "out --with-files, which removes the record alone"));
}

// Best effort: without it, the record of the removal expires.
void Forget(Context& context, const v1::Job& removal) { (void)RemoveJob(context, removal); }

absl::Status CancelRemoval(Context& context, const v1::Job& job, const v1::Job& removal,
                           const absl::Status& why) {
  context.Reconnect();
  context.coordinator();
  const absl::Status cancelled = CancelJob(context, removal.id()).status();
  if (!absl::IsCancelled(why)) return why;
  return absl::CancelledError(absl::StrCat(
      "interrupted; job ", job.id(), " stays on record, and job ", removal.id(),
      ", which removes its files, ",
      cancelled.ok() ? "is cancelled" : absl::StrCat("goes on: ", cancelled.message())));
}

}  // namespace

void FileRemoval::DefineFlags(CLI::App& app) {
  app.add_flag("--with-files", with_files_,
               "Also remove the checkpoints and weights that dp wrote for the job");
  app.add_option("--files-on", files_on_,
                 "The worker that sees the files; default: the workers on whose hosts rank 0 ran")
      ->type_name("WORKER");
  app.add_flag("--dry-run", dry_run_, "Only list what would be removed");
}

absl::Status FileRemoval::Check() const {
  if (with_files_ || files_on_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--files-on says where files are removed; add --with-files");
}

std::unique_ptr<InterruptWatch> FileRemoval::WatchInterrupts(Context& context) const {
  if (!with_files_) return nullptr;
  context.coordinator();
  return std::make_unique<InterruptWatch>(context, 1);
}

FileRemoval::End FileRemoval::Remove(Context& context, const v1::Job& job) const {
  End end;
  if (dry_run_) end.status = CheckMayRemove(context);
  if (end.status.ok() && (with_files_ || dry_run_)) end.status = CheckOver(job);
  if (end.status.ok() && with_files_) end.status = RemoveAllFiles(context, job, &end.files);
  if (end.status.ok() && !dry_run_) end.status = RemoveJob(context, job, with_files_);
  return end;
}

absl::Status FileRemoval::RemoveAllFiles(Context& context, const v1::Job& job,
                                         std::vector<FileOnWorker>* files) const {
  DP_ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse checkpoints,
                      ListCheckpoints(context, job.id()));
  *files = FilesThatStay(job, checkpoints);
  if (!MayHaveFiles(job)) return absl::OkStatus();
  DP_RETURN_IF_ERROR(CheckNoHeir(context, job));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, HostsOfRankZero(context, job));
  DP_ASSIGN_OR_RETURN(const v1::ListWorkersResponse all,
                      context.Call(&v1::Workers::Stub::List, v1::ListWorkersRequest()));
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> workers,
                      WorkersOfFiles(job, hosts, all, files_on_));
  for (const std::string& worker : workers) {
    DP_RETURN_IF_ERROR(RemoveOn(context, job, worker, files));
  }
  for (const std::string& path : NotFoundAmong(*files, job, checkpoints)) {
    context.err() << "dpctl: " << Printable(path) << " is not on worker "
                  << absl::StrJoin(workers, ", ") << '\n';
  }
  return absl::OkStatus();
}

absl::Status FileRemoval::RemoveOn(Context& context, const v1::Job& job, const std::string& worker,
                                   std::vector<FileOnWorker>* files) const {
  DP_ASSIGN_OR_RETURN(const v1::Job removal,
                      SubmitRemoval(context, job, RemovalSpec(job, worker, dry_run_)));
  const absl::StatusOr<v1::Job> end = AwaitRemoval(context, removal);
  if (!end.ok()) {
    const absl::Status status = CancelRemoval(context, job, removal, end.status());
    Forget(context, removal);
    return status;
  }
  const absl::Status read = ReadOutcomes(context, removal.id(), worker, files);
  Forget(context, removal);
  DP_RETURN_IF_ERROR(read);
  if (end->state() == v1::JOB_STATE_SUCCEEDED) return absl::OkStatus();
  return WhyNotRemoved(job, *end, worker, *files);
}

}  // namespace dp::ctl
