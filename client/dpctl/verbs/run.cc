#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/random.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/run/follower.h"
#include "client/dpctl/run/interrupt_watch.h"
#include "client/dpctl/run/job_source.h"
#include "client/dpctl/run/line_files.h"
#include "client/dpctl/run/line_rules.h"
#include "client/dpctl/run/local_run.h"
#include "client/dpctl/run/program_line.h"
#include "client/dpctl/run/ranks_per_worker.h"
#include "client/dpctl/run/resume_flag.h"
#include "client/dpctl/run/script_text.h"
#include "client/dpctl/run/spawn_advice.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/job_view.h"

namespace dp::ctl {
namespace {

// A second Ctrl-C within this time cancels the job; the first one only detaches from it.
constexpr absl::Duration kSecondInterrupt = absl::Seconds(2);
// A coordinator of our own that is silent for longer is dead.
constexpr absl::Duration kLocalPatience = absl::Seconds(10);

// One verb that runs a job.
struct RunVerb {
  const char* name;
  const char* summary;
  const char* example;
  Launching launching;
};

constexpr RunVerb kRun = {"run", "Submit a job, follow it and exit with its result",
                          "dpctl run job.yaml\n  dpctl run --local --workers 2 job.yaml\n"
                          "  dpctl run --nnodes 2 --nproc-per-node 4 train.py --epochs 3\n"
                          "  dpctl run --local --nproc-per-node gpu -- python3.11 train.py",
                          Launching::kDp};
constexpr RunVerb kTorchrun = {"torchrun", "Run a Python script or module as torchrun does",
                               "dpctl torchrun --nnodes 2 --nproc-per-node 4 train.py --epochs 3\n"
                               "  dpctl torchrun --standalone --nproc-per-node gpu -m pkg.train",
                               Launching::kTorchrun};
constexpr RunVerb kLaunch = {"launch", "Run a script as python -m torch.distributed.launch does",
                             "dpctl launch --nproc-per-node 4 train.py --epochs 3\n"
                             "  dpctl launch --use-env --nproc-per-node 4 train.py",
                             Launching::kLaunch};

class RunJob final : public Command {
 public:
  explicit RunJob(const RunVerb& verb)
      : verb_(verb), source_(verb.launching, /*lines_shown=*/true) {}

  const char* name() const override { return verb_.name; }
  const char* summary() const override { return verb_.summary; }
  const char* example() const override { return verb_.example; }
  bool TakesInterrupts() const override { return true; }
  // On an error nothing of the job has run.
  int CodeOfFailure() const override { return kInfrastructure; }

  JobSource* source() override { return &source_; }

  bool NeedsCoordinator() const override { return !local_.on(); }

  std::string FlagToRunHere() const override {
    if (local_.on()) return "";
    return verb_.launching == Launching::kTorchrun ? "--standalone" : "--local";
  }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    resume_.DefineFlags(app);
    local_.DefineFlags(app);
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_RETURN_IF_ERROR(local_.Check());
    auto loaded = source_.Load(context, /*ranks_run_here=*/local_.on());
    if (absl::IsCancelled(loaded.status())) return Detach(context);
    DP_ASSIGN_OR_RETURN(client::JobFile job, std::move(loaded));
    v1::JobSpec& spec = job.spec;
    if (local_.on() && resume_.given())
      return absl::InvalidArgumentError(
          "--resume asks the coordinator that ran the job; leave out --local, which starts "
          "another");
    std::unique_ptr<LocalCluster> cluster;
    DP_RETURN_IF_ERROR(local_.on() ? CountRanksHere(context.surroundings().machine, job)
                                   : CountRanks(context, job));
    if (local_.on()) {
      auto started = local_.Start(spec, context);
      if (absl::IsCancelled(started.status())) return EndLocal(context);
      DP_ASSIGN_OR_RETURN(cluster, std::move(started));
      context.ConnectTo(cluster->address(), cluster->credential_dir());
    }
    context.coordinator();
    if (local_.on()) DP_RETURN_IF_ERROR(LocalRun::CheckStarted(spec, context));
    DP_RETURN_IF_ERROR(resume_.Apply(context, spec));
    std::string lost;
    auto watch = cluster == nullptr ? nullptr : cluster->Watch([&](const std::string& how) {
      lost = how;
      context.Interrupt();
    });
    const absl::StatusOr<int> code = SubmitAndFollow(job, context);
    watch.reset();  // no loss is reported from here on
    if (!code.ok() && context.refused() && id_ != 0 && !local_.on()) return GoesOn(code.status());
    if (!absl::IsCancelled(code.status())) return code;
    if (!lost.empty()) {
      context.err() << "dpctl: " << lost << '\n';
      return kInfrastructure;
    }
    return local_.on() ? StopLocal(*cluster, context) : Detach(context);
  }

 private:
  // Errors: Cancelled on Ctrl-C.
  absl::StatusOr<int> SubmitAndFollow(const client::JobFile& job, Context& context) {
    const v1::JobSpec& spec = job.spec;
    LineRules rules;
    if (spec.has_command()) {
      DP_ASSIGN_OR_RETURN(rules, LineRulesOf(source_.torchrun(), spec));
      for (const std::string& line : NoSuchLocalRanks(rules, source_.torchrun(), spec))
        context.err() << "dpctl: " << line << '\n';
    }
    const InterruptWatch watch(context, 1);
    DP_ASSIGN_OR_RETURN(const v1::SubmitRequest request, RequestFor(context, job));
    submitting_ = true;
    DP_ASSIGN_OR_RETURN(submitted_, SubmitJob(context, request));
    id_ = submitted_->id();
    context.err() << "job " << id_ << " (" << spec.name() << ") submitted" << std::endl;
    if (context.flags().format == Format::kName) context.out() << id_ << std::endl;
    // With another format than text, standard output is for programs.
    std::ostream& lines = context.flags().format == Format::kTable ? context.out() : context.err();
    follower_.emplace(context, id_, lines, local_.on() ? kLocalPatience : kPatience,
                      SilenceAdvice(SpawnRemedy(spec, ScriptOf(spec.command()))));
    follower_->Obey(rules, FilesFor(rules, context));
    return Follow(context);
  }

  // The files of --redirects and --tee. Without --log-dir only a local run writes them, because its
  // coordinator, which has all lines, ends with the job.
  std::optional<LineFiles> FilesFor(const LineRules& rules, Context& context) const {
    const bool wanted = !rules.redirects.empty() || !rules.tee.empty();
    if (!wanted) return std::nullopt;
    if (!local_.on() && rules.log_dir.empty()) {
      context.err() << "dpctl: no files are written without --log-dir; 'dpctl logs " << id_
                    << "' shows every line, also those that --redirects keeps from here\n";
      return std::nullopt;
    }
    const std::string name = absl::StrFormat("dp-logs-%016x", EntropySeed());
    std::error_code none;
    const auto dir = rules.log_dir.empty() ? std::filesystem::temp_directory_path(none)
                                           : std::filesystem::path(rules.log_dir);
    std::optional<LineFiles> files((dir / name).string());
    context.err() << "dpctl: the ranks' lines go to " << files->dir() << '\n';
    return files;
  }

  // The text of the program's script; empty if it is not on this machine.
  static std::string ScriptOf(const v1::CommandSpec& command) {
    const std::vector<std::string> argv(command.argv().begin(), command.argv().end());
    return argv.empty() ? "" : ScriptText(command.working_dir(), argv[ScriptIn(argv)]);
  }

  // Shows the job from where it was left to its end. Errors: Cancelled on Ctrl-C.
  absl::StatusOr<int> Follow(Context& context) {
    DP_ASSIGN_OR_RETURN(v1::Job job, follower_->Run());
    if (!Finished(job.state())) return OutputClosed(context);
    PrintEnd(job, follower_->test_accuracy(), context);
    return ExitCodeOf(job);
  }

  // Cancels the job and shows the output of its ranks while they shut down, until the Ctrl-C of
  // this number. Precondition: follower_ is set. Errors: Cancelled on that Ctrl-C.
  absl::StatusOr<int> CancelAndFollow(int number, const std::string& next, Context& context) {
    context.Reconnect();
    context.coordinator();
    const InterruptWatch watch(context, number);
    DP_ASSIGN_OR_RETURN(const v1::Job now, GetJob(context, id_));
    DP_RETURN_IF_ERROR(CheckSame(*submitted_, now));
    DP_RETURN_IF_ERROR(CancelJob(context, id_).status());
    context.err() << "dpctl: job " << id_ << " is being cancelled; Ctrl-C again " << next
                  << std::endl;
    return Follow(context);
  }

  static void PrintEnd(const v1::Job& job, std::optional<double> accuracy, Context& context) {
    if (job.state() == v1::JOB_STATE_FAILED) PrintFailure(job, context.err());
    if (job.state() == v1::JOB_STATE_CANCELLED)
      context.err() << "dpctl: job " << job.id() << " was cancelled\n";
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WriteJob(job, json);
    } else if (context.flags().format == Format::kTable && accuracy &&
               job.state() == v1::JOB_STATE_SUCCEEDED) {
      context.out() << absl::StrFormat("test_accuracy=%.4f\n", *accuracy);
    }
  }

  // Cancels the job, so that its ranks can shut down and their last lines are shown.
  absl::StatusOr<int> StopLocal(LocalCluster& cluster, Context& context) {
    if (!follower_) return EndLocal(context);
    const absl::StatusOr<int> code =
        CancelAndFollow(2, "kills its ranks without waiting for them", context);
    if (!absl::IsCancelled(code.status())) return code;
    cluster.EndAtOnce();
    return EndLocal(context);
  }

  static int EndLocal(Context& context) {
    context.err() << "dpctl: interrupted; the job ends with its coordinator and workers\n";
    return kCancelled;
  }

  // The caller's access has ended, and not the job.
  absl::Status GoesOn(const absl::Status& refusal) const {
    return {refusal.code(),
            absl::StrCat(refusal.message(), "\njob ", id_,
                         " goes on without dpctl. After a login, 'dpctl logs -f ", id_,
                         "' follows it again, and 'dpctl wait ", id_, "' ends with its result")};
  }

  // Nobody reads the lines of the ranks any more, so there is no reason to follow the job.
  int OutputClosed(Context& context) const {
    if (local_.on()) {
      context.err() << "dpctl: standard output is closed; the job ends with its coordinator and "
                       "workers\n";
      return kCancelled;
    }
    context.err() << "dpctl: standard output is closed; job " << id_ << " goes on without dpctl. "
                  << "'dpctl logs -f " << id_ << "' follows it again, 'dpctl cancel " << id_
                  << "' cancels it" << std::endl;
    return kNotFinished;
  }

  absl::StatusOr<int> Detach(Context& context) {
    if (id_ == 0) {
      context.err() << (submitting_ ? "dpctl: interrupted while submitting; 'dpctl ps' shows "
                                      "whether the job is queued\n"
                                    : "dpctl: interrupted; no job was submitted\n");
      return kCancelled;
    }
    context.err() << "dpctl: detached; job " << id_ << " goes on. 'dpctl logs -f " << id_
                  << "' follows it again, 'dpctl cancel " << id_
                  << "' or Ctrl-C again now cancels it" << std::endl;
    if (!context.surroundings().interrupts.Await(2, kSecondInterrupt)) return kNotFinished;
    const absl::StatusOr<int> code = CancelAndFollow(3, "stops showing its output", context);
    if (!absl::IsCancelled(code.status())) return code;
    context.err() << "dpctl: job " << id_ << " is still being cancelled; 'dpctl wait " << id_
                  << "' waits for its end\n";
    return kCancelled;
  }

  const RunVerb& verb_;
  JobSource source_;
  ResumeFlag resume_;
  LocalRun local_;
  bool submitting_ = false;  // the coordinator may have the job
  std::optional<v1::Job> submitted_;
  uint64_t id_ = 0;                   // 0: not submitted yet
  std::optional<Follower> follower_;  // once it is submitted
};

}  // namespace

std::unique_ptr<Command> MakeRun() { return std::make_unique<RunJob>(kRun); }
std::unique_ptr<Command> MakeTorchrun() { return std::make_unique<RunJob>(kTorchrun); }
std::unique_ptr<Command> MakeLaunch() { return std::make_unique<RunJob>(kLaunch); }

}  // namespace dp::ctl
