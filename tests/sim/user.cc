#include "tests/sim/user.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::sim {
void User::Submit(const core::JobSpec& spec, const std::string& name, absl::Duration cancel_after) {
  const core::SubmitJob request{absl::StrCat("request ", ++submissions_), spec, name};
  const bool passing = spec.scheduling.ttl_after_finish < absl::InfiniteDuration();
  Retry<JobId>(
      env_, kForever,
      [this, request](absl::Duration deadline, Reply<JobId> done) {
        network_.Call<JobId>(
            kNode, deadline,
            [request](Service& service, auto reply) { service.SubmitJob(request, reply); },
            std::move(done));
      },
      [this, ranks = spec.ranks, passing, cancel_after](const absl::StatusOr<JobId>& job) {
        if (!job.ok()) return env_.Expect(false, "a submission was refused");
        const bool is_new = jobs_.emplace(*job, core::JobState::kPending).second;
        env_.Expect(is_new, "two submissions made one job");
        if (passing) passing_.insert(*job);
        env_.Tell(absl::StrCat("job ", job->ToString(), " submitted, ranks ", ranks));
        Watch(*job, Revision());
        if (cancel_after == absl::InfiniteDuration()) return;
        env_.events.After(cancel_after, [this, id = *job] { Cancel(id); });
      });
}

void User::Cancel(JobId job) {
  env_.Tell(absl::StrCat("cancel of job ", job.ToString()));
  Retry<Done>(
      env_, kForever,
      [this, job](absl::Duration deadline, Reply<Done> done) {
        network_.Call<Done>(
            kNode, deadline, [job](Service& service, auto reply) { service.CancelJob(job, reply); },
            std::move(done));
      },
      [this, job](const absl::StatusOr<Done>& cancelled) {
        const bool gone = absl::IsNotFound(cancelled.status()) && !Lasting(job);
        env_.Expect(cancelled.ok() || gone, "a cancellation was refused");
      });
}

void User::Watch(JobId job, Revision since) {
  network_.Call<core::Job>(
      kNode, absl::Seconds(12),
      [job, since](Service& service, auto reply) {
        service.WatchJob(job, since, absl::Seconds(10), reply);
      },
      [this, job, since](const absl::StatusOr<core::Job>& seen) {
        env_.Expect(!absl::IsNotFound(seen.status()) || !Lasting(job),
                    "an acknowledged job is not known");
        if (absl::IsNotFound(seen.status())) return;
        if (!seen.ok()) {
          env_.events.After(absl::Milliseconds(500), [this, job, since] { Watch(job, since); });
          return;
        }
        env_.Expect(seen->version >= since, "the version of a job went back");
        if (!seen->terminal()) return Watch(job, seen->version);
        jobs_[job] = seen->state;
        env_.Tell(absl::StrCat("job ", job.ToString(), " ", core::Name(seen->state)));
      });
}

}  // namespace dp::sim
