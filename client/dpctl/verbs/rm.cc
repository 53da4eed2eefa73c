#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/run/file_removal.h"
#include "client/dpctl/verbs/job_verb.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"

namespace dp::ctl {
namespace {

class Rm final : public JobVerb {
 public:
  const char* name() const override { return "rm"; }
  const char* summary() const override { return "Remove jobs that are over, with their logs"; }
  const char* example() const override {
    return "dpctl rm 7 8\n  dpctl rm --with-files --dry-run 7\n"
           "  dpctl rm $(dpctl ps --state failed -o name)";
  }
  bool TakesInterrupts() const override { return removal_.with_files(); }

  void DefineFlags(CLI::App& app) override {
    JobVerb::DefineFlags(app);
    removal_.DefineFlags(app);
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_RETURN_IF_ERROR(removal_.Check());
    const auto watch = removal_.WatchInterrupts(context);
    return JobVerb::Run(context);
  }

 private:
  // A number that is no job's does not stand for a name: who repeats a removal means the same job.
  absl::StatusOr<v1::Job> Find(Context& context, const std::string& text) const override {
    uint64_t id = 0;
    return absl::SimpleAtoi(text, &id) ? GetJob(context, id) : FindJob(context, text);
  }

  absl::Status AskOne(Context& context, const v1::Job& job) const override {
    const FileRemoval::End end = removal_.Remove(context, job);
    const bool json = context.flags().format == Format::kJson;
    // JSON has the files of a job that is removed; of one that stays, people read them.
    if (context.flags().format == Format::kTable) {
      PrintFiles(end.files, removal_.dry_run(), context.out(), context.err());
    } else if (!end.status.ok()) {
      PrintFiles(end.files, removal_.dry_run(), context.err(), context.err());
    }
    DP_RETURN_IF_ERROR(end.status);
    if (json && removal_.with_files()) {
      JsonWriter writer(context.out());
      WriteJob(job, writer, [&] { WriteFiles(end.files, writer); });
    } else {
      Print(context, job, job);
    }
    return absl::OkStatus();
  }
  std::string Done(const v1::Job& job, const v1::Job&) const override {
    return absl::StrCat("(", job.spec().name(),
                        removal_.dry_run() ? ") would be removed" : ") is removed");
  }

  FileRemoval removal_;
};

}  // namespace

std::unique_ptr<Command> MakeRm() { return std::make_unique<Rm>(); }

}  // namespace dp::ctl
