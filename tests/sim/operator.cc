#include "tests/sim/operator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::sim {
namespace {

// The first nodes name their workers worker-1 to worker-3, or let the machine name them.
constexpr int kWorkers = 3;

}  // namespace

void Operator::Start() {
  env_.events.After(env_.dice.Between(absl::Milliseconds(500), absl::Seconds(6)), [this] {
    if (at_peace_) return;
    const std::string worker = absl::StrCat("worker-", 1 + env_.dice.Below(kWorkers));
    if (env_.dice.Chance(0.25)) {
      Send(core::DrainWorker{worker, "maintenance", env_.dice.Chance(0.5)});
    } else if (env_.dice.Chance(0.3)) {
      Send(core::UndrainWorker{worker});
    } else {
      ActOn(JobId(1 + env_.dice.Below(kJobs)));
    }
    Start();
  });
}

void Operator::ActOn(JobId job) {
  switch (env_.dice.Below(4)) {
    case 0:
      return Send(core::HoldJob{job});
    case 1:
      return Send(core::ReleaseJob{job});
    case 2:
      return Send(core::PrioritizeJob{job, env_.dice.Below(7) - 3});
    case 3:
      return Send(core::RequeueJob{job});
  }
}

void Operator::TidyUp(const core::Coordinator& coordinator) {
  for (const core::Worker* worker : coordinator.workers()) {
    if (worker->drain.has_value()) Send(core::UndrainWorker{worker->name});
  }
  for (const core::Job* job : coordinator.jobs()) {
    if (job->terminal()) continue;
    if (job->held) Send(core::ReleaseJob{job->id});
    const bool in_vain = std::any_of(job->after.begin(), job->after.end(), [](const auto& each) {
      return each.state == core::AwaitedJob::State::kInVain;
    });
    if (in_vain) Send(core::CancelJob{job->id});
  }
}

void Operator::Send(core::Action action) {
  Retry<Done>(
      env_, kForever,
      [this, action = std::move(action)](absl::Duration deadline, Reply<Done> done) {
        network_.Call<Done>(
            kNode, deadline, [action](Service& service, auto reply) { service.Act(action, reply); },
            std::move(done));
      },
      [](const absl::StatusOr<Done>&) {});
}

}  // namespace dp::sim
