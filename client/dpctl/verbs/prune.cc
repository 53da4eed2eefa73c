#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/run/file_removal.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Prune final : public Command {
 public:
  const char* name() const override { return "prune"; }
  const char* summary() const override {
    return "Remove all jobs that ended some time ago, with their logs";
  }
  const char* example() const override {
    return "dpctl prune --older-than 720h --dry-run\n  dpctl prune --older-than 720h\n"
           "  dpctl prune --older-than 720h --with-files";
  }
  bool TakesInterrupts() const override { return removal_.with_files(); }

  void DefineFlags(CLI::App& app) override {
    AddDuration(app, "--older-than", older_than_,
                "Jobs that ended at least so long ago, by the coordinator's clock")
        ->required();
    removal_.DefineFlags(app);
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_RETURN_IF_ERROR(removal_.Check());
    const auto watch = removal_.WatchInterrupts(context);
    v1::ListJobsRequest request;
    *request.mutable_finished_for() = ToProto(older_than_);
    DP_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, ListJobs(context, request));
    std::vector<Removed> removed;
    absl::Status status;
    for (const v1::Job& job : jobs) {
      FileRemoval::End end = removal_.Remove(context, job);
      status = end.status;
      if (context.flags().format == Format::kTable) PrintLines(job, end, context);
      if (!status.ok()) break;
      removed.push_back({job, std::move(end.files)});
    }
    if (jobs.empty() && context.flags().format == Format::kTable) {
      context.err() << "dpctl: no job ended at least " << absl::FormatDuration(older_than_)
                    << " ago\n";
    }
    PrintForPrograms(removed, context);
    if (!status.ok()) return status;
    return kSuccess;
  }

 private:
  struct Removed {
    v1::Job job;
    std::vector<FileOnWorker> files;
  };

  void PrintLines(const v1::Job& job, const FileRemoval::End& end, Context& context) const {
    PrintFiles(end.files, removal_.dry_run(), context.out(), context.err());
    if (!end.status.ok()) return;
    context.out() << "job " << job.id() << " (" << job.spec().name() << ") "
                  << (removal_.dry_run() ? "would be removed" : "is removed") << '\n';
  }

  void PrintForPrograms(const std::vector<Removed>& removed, Context& context) const {
    if (context.flags().format == Format::kName) {
      for (const Removed& each : removed) context.out() << each.job.id() << '\n';
    }
    if (context.flags().format != Format::kJson) return;
    JsonWriter json(context.out());
    json.BeginObject();
    json.Key("items");
    json.BeginArray();
    for (const Removed& each : removed) {
      WriteJob(each.job, json, [&] {
        if (removal_.with_files()) WriteFiles(each.files, json);
      });
    }
    json.EndArray();
    json.EndObject();
  }

  absl::Duration older_than_;
  FileRemoval removal_;
};

}  // namespace

std::unique_ptr<Command> MakePrune() { return std::make_unique<Prune>(); }

}  // namespace dp::ctl
