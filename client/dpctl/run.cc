#include <pthread.h>

#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/limits.h"
#include "base/node_range.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/follower.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_source.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/job_view.h"
#include "client/dpctl/local_gpus.h"
#include "client/dpctl/ranks_per_worker.h"
#include "client/dpctl/resume_flag.h"
#include "client/dpctl/verbs.h"
#include "proto/convert/elastic.h"

namespace dp::ctl {
namespace {

// A second Ctrl-C within this time cancels the job, not only the view of it.
constexpr absl::Duration kSecondInterrupt = absl::Seconds(1);
// A coordinator of our own that is silent for longer has died.
constexpr absl::Duration kLocalPatience = absl::Seconds(10);

// While it lives, a Ctrl-C interrupts the context's calls.
class InterruptWatch {
 public:
  explicit InterruptWatch(Context& context)
      : interrupts_(context.surroundings().interrupts), thread_([this, &context] {
          pthread_setname_np(pthread_self(), "interrupts");
          if (interrupts_.Await(1, absl::InfiniteDuration())) context.Interrupt();
        }) {}
  ~InterruptWatch() {
    if (interrupts_.count() == 0) interrupts_.StopWaiting();
  }

 private:
  Interrupts& interrupts_;
  std::jthread thread_;
};

class RunJob final : public Command {
 public:
  const char* name() const override { return "run"; }
  const char* summary() const override {
    return "Submit a job, follow it and exit with its result";
  }
  const char* example() const override {
    return "dpctl run job.yaml\n  dpctl run --local --workers 2 job.yaml\n"
           "  dpctl run --nnodes 2 --nproc-per-node 4 -- python3 train.py --epochs 3\n"
           "  dpctl run --local --nproc-per-node gpu -- python3 train.py";
  }
  bool TakesInterrupts() const override { return true; }
  // Nothing of the job has run.
  int CodeOfFailure() const override { return kInfrastructure; }

  bool TakeProgram(std::vector<std::string> argv) override {
    return source_.TakeProgram(std::move(argv));
  }

  void DefineFlags(CLI::App& app) override {
    source_.DefineFlags(app);
    resume_.DefineFlags(app);
    auto* local = app.add_flag("--local,--standalone", local_,
                               "On a coordinator and workers of its own, here");
    app.add_option("--workers", workers_,
                   "How many workers --local starts; by default as many as the job names, or one")
        ->check(CLI::Range(1, 64))
        ->needs(local);
    app.add_option("--slots", slots_, "Slots of each of them; by default as many as are needed")
        ->check(CLI::Range(1, kSlotsMax))
        ->needs(local);
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(v1::JobSpec spec, source_.Load(context, /*ranks_run_here=*/local_));
    if (local_ && resume_.given())
      return absl::InvalidArgumentError(
          "--resume asks the coordinator that ran the job; leave out --local, which starts "
          "another");
    std::unique_ptr<LocalCluster> cluster;
    DP_RETURN_IF_ERROR(local_ ? CountRanksHere(context.surroundings().machine, spec)
                              : CountRanks(context, spec));
    if (local_) {
      auto started = StartLocal(spec, context);
      if (absl::IsCancelled(started.status())) return EndLocal(context);
      DP_ASSIGN_OR_RETURN(cluster, std::move(started));
      context.ConnectTo(cluster->address());
    }
    context.coordinator();
    if (local_ && TrainsOnGpus(spec)) DP_RETURN_IF_ERROR(CheckTrainerHere(context));
    DP_RETURN_IF_ERROR(resume_.Apply(context, spec));
    const absl::StatusOr<int> code = SubmitAndFollow(spec, context);
    if (!absl::IsCancelled(code.status())) return code;
    return local_ ? EndLocal(context) : Detach(context);
  }

 private:
  // Errors: InvalidArgument --workers and --slots have no room for the job; as CheckLocalGpus and
  // StartLocalCluster.
  absl::StatusOr<std::unique_ptr<LocalCluster>> StartLocal(const v1::JobSpec& spec,
                                                           Context& context) {
    const auto range = ParseNodeRange(NodesField(spec));
    const int nodes = range.ok() ? range->min : 1;
    const int workers = workers_ > 0 ? workers_ : nodes;
    const int sharers = range.ok() ? nodes : workers;
    const int needed = (spec.ranks() + sharers - 1) / sharers;
    const int slots = slots_ > 0 ? slots_ : needed;
    if (workers < sharers)
      return absl::InvalidArgumentError(
          absl::StrCat("--workers ", workers, " is too few for a job of ", nodes,
                       " nodes, which would wait for ever; leave it out, or give ", nodes));
    if (slots < needed)
      return absl::InvalidArgumentError(
          absl::StrCat("--slots ", slots, " is too few for ", spec.ranks(), " ranks on ", sharers,
                       sharers == 1 ? " worker" : " workers",
                       ", which would wait for ever; leave it out, or give ", needed));
    DP_RETURN_IF_ERROR(CheckLocalGpus(context.surroundings().machine, spec, workers));
    return context.surroundings().start_local(
        {.workers = workers,
         .slots = slots,
         .stop = context.surroundings().interrupts.descriptor()});
  }

  // Errors: as CheckLocalTrainer.
  static absl::Status CheckTrainerHere(Context& context) {
    DP_ASSIGN_OR_RETURN(const v1::ListWorkersResponse workers, context.Call([&](absl::Duration in) {
      return context.coordinator().workers().ListWorkers({}, in);
    }));
    return CheckLocalTrainer(workers);
  }

  // Errors: Cancelled on Ctrl-C.
  absl::StatusOr<int> SubmitAndFollow(const v1::JobSpec& spec, Context& context) {
    const InterruptWatch watch(context);
    DP_ASSIGN_OR_RETURN(v1::Job submitted, SubmitJob(context, spec));
    id_ = submitted.id();
    context.err() << "job " << id_ << " (" << spec.name() << ") submitted" << std::endl;
    if (context.flags().format == Format::kName) context.out() << id_ << std::endl;
    // With another format than text, standard output is for the machine.
    std::ostream& lines = context.flags().format == Format::kTable ? context.out() : context.err();
    Follower follower(context, id_, lines, local_ ? kLocalPatience : kPatience);
    DP_ASSIGN_OR_RETURN(v1::Job job, follower.Run());
    if (!Finished(job.state())) return OutputClosed(context);
    PrintEnd(job, follower.test_accuracy(), context);
    return ExitCodeOf(job);
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

  static int EndLocal(Context& context) {
    context.err() << "dpctl: interrupted; the job ends with its coordinator and workers\n";
    return kCancelled;
  }

  // Nobody takes the lines of the ranks any more, so there is nothing left to follow for.
  int OutputClosed(Context& context) const {
    if (local_) {
      context.err() << "dpctl: standard output is closed; the job ends with its coordinator and "
                       "workers\n";
      return kCancelled;
    }
    context.err() << "dpctl: standard output is closed; detached, and job " << id_
                  << " goes on.  re-attach: dpctl logs -f " << id_ << "  cancel: dpctl cancel "
                  << id_ << std::endl;
    return kNotFinished;
  }

  absl::StatusOr<int> Detach(Context& context) {
    if (id_ == 0) {
      context.err() << "dpctl: interrupted while submitting; 'dpctl ps' shows whether the job is "
                       "queued\n";
      return kCancelled;
    }
    context.err() << "dpctl: detached; job " << id_ << " goes on.  re-attach: dpctl logs -f " << id_
                  << "  cancel: dpctl cancel " << id_ << ", or Ctrl-C again now" << std::endl;
    if (!context.surroundings().interrupts.Await(2, kSecondInterrupt)) return kNotFinished;
    context.Reconnect();
    DP_RETURN_IF_ERROR(CancelJob(context, id_).status());
    context.err() << "dpctl: job " << id_ << " is being cancelled\n";
    return kCancelled;
  }

  JobSource source_;
  ResumeFlag resume_;
  bool local_ = false;
  int workers_ = 0;  // 0: as many as the job names
  int slots_ = 0;    // 0: as many as the job needs
  uint64_t id_ = 0;  // 0: not submitted yet
};

}  // namespace

std::unique_ptr<Command> MakeRun() { return std::make_unique<RunJob>(); }

}  // namespace dp::ctl
