#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/job_calls.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/worker_view.h"
#include "client/long_poll.h"
#include "dp/v1/workers.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Drain final : public Command {
 public:
  const char* name() const override { return "drain"; }
  const char* summary() const override {
    return "Give a worker no new ranks until it is undrained";
  }
  const char* example() const override {
    return "dpctl drain node7 --reason 'new disks' --wait && ssh node7 poweroff";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("WORKER", request_.worker, "Its name")->required();
    app.add_option(
        "--reason", request_.reason,
        "Why; dpctl workers shows it. Without it, --wait waits for a drain that has begun");
    app.add_flag("--hand-over", request_.hand_over,
                 "Ask jobs with ranks there to go on elsewhere, not to finish");
    CLI::Option* wait = app.add_flag("--wait", wait_, "Wait until no rank is left there");
    AddDuration(app, "--for", for_, "With --wait: give up after this long, with exit code 101")
        ->needs(wait);
  }

  absl::StatusOr<int> Run(Context& context) override {
    const bool begins = !request_.reason.empty();
    if (!begins && (!wait_ || request_.hand_over)) {
      return absl::InvalidArgumentError("--reason is required; say why no rank may come there");
    }
    if (begins) {
      DP_ASSIGN_OR_RETURN(const v1::DrainResponse response, Begin(context));
      if (!wait_) {
        Print(response.worker(), context);
        return kSuccess;
      }
    }
    DP_ASSIGN_OR_RETURN(const v1::Worker worker, AwaitEmpty(context));
    Print(worker, context);
    return Empty(worker) ? kSuccess : kNotFinished;
  }

 private:
  absl::StatusOr<v1::DrainResponse> Begin(Context& context) const {
    v1::DrainRequest request;
    request.set_worker(request_.worker);
    request.set_reason(request_.reason);
    request.set_hand_over(request_.hand_over);
    return context.Call(&v1::Workers::Stub::Drain, request);
  }
  static bool Empty(const v1::Worker& worker) { return worker.jobs().empty(); }

  // Returns the worker once no rank is left there, or when time is up.
  absl::StatusOr<v1::Worker> AwaitEmpty(Context& context) const {
    const Clock& clock = context.surroundings().clock;
    const absl::Time until = clock.Now() + for_;
    v1::WatchWorkersRequest request;
    std::optional<v1::Worker> last;
    while (true) {
      const absl::StatusOr<v1::WatchWorkersResponse> response =
          Watch(context, until, last.has_value(), request);
      const bool over = clock.Now() >= until;
      // The last answer is late, or the coordinator is out of reach.
      if (!response.ok() && over && last && ExitCodeOf(response.status()) == kUnreachable)
        return *std::move(last);
      if (!response.ok()) return response.status();
      request.set_since(response->version());
      const auto found = std::find_if(
          response->workers().begin(), response->workers().end(),
          [this](const v1::Worker& worker) { return worker.name() == request_.worker; });
      if (found == response->workers().end())
        return absl::NotFoundError(absl::StrCat("worker ", request_.worker, " is gone"));
      if (!found->drained() && request_.reason.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("worker ", request_.worker, " is not drained; drain it with a --reason"));
      }
      if (Empty(*found) || over) return *found;
      last = *found;
    }
  }

  static absl::StatusOr<v1::WatchWorkersResponse> Watch(Context& context, absl::Time until,
                                                        bool heard,
                                                        v1::WatchWorkersRequest& request) {
    const Clock& clock = context.surroundings().clock;
    return context.CallFor(std::min(kPatience, until - clock.Now()), [&](absl::Duration) {
      const absl::Duration left = std::max(until - clock.Now(), absl::ZeroDuration());
      const absl::Duration poll = std::min(left, client::kLongPoll);
      *request.mutable_timeout() = ToProto(poll);
      return context.coordinator().Call(&v1::Workers::Stub::Watch, request,
                                        client::LongPollDeadline(poll, left, heard));
    });
  }

  static void Print(const v1::Worker& worker, Context& context) {
    switch (context.flags().format) {
      case Format::kName:
        context.out() << worker.name() << '\n';
        return;
      case Format::kJson: {
        JsonWriter json(context.out());
        return WriteWorker(worker, json);
      }
      case Format::kTable:
        context.out() << "worker " << worker.name() << " is " << NameOf(worker.state());
        if (!Empty(worker)) context.out() << ", with jobs " << absl::StrJoin(worker.jobs(), ", ");
        context.out() << '\n';
    }
  }

  struct {
    std::string worker, reason;
    bool hand_over = false;
  } request_;
  bool wait_ = false;
  absl::Duration for_ = absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<Command> MakeDrain() { return std::make_unique<Drain>(); }

}  // namespace dp::ctl
