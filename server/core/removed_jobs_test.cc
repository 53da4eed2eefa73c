#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/policy/testing/coordinator_fixture.h"

// The events that stay when a job leaves the record.

namespace dp::core {
namespace {

using testing::ElementsAre;

class RemovedJobsTest : public CoordinatorFixture {
 protected:
  JobId SubmitAs(const std::string& owner, const std::string& actor) {
    SubmitJob submit{
        absl::StrCat("r", ++requests_), {.name = "mnist", .payload = "spec"}, owner, owner};
    const Outcome outcome = ApplyAs(actor, submit);
    const JobId job = std::get<JobId>(outcome.reply);
    ApplyAs("", CancelJob{job});
    return job;
  }
  Outcome ApplyAs(const std::string& actor, Action action) {
    return coordinator_.Apply({now_, std::move(action), actor});
  }
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    for (const auto& [number, event] : coordinator_.state().events.events()) {
      events.push_back(absl::StrCat("job ", event.job.ToString(), " of ", event.owner, ": ",
                                    event.kind, " ", event.text, " by ", event.actor));
    }
    return events;
  }

  int requests_ = 0;
};

TEST_F(RemovedJobsTest, WhoRemovedWhoseJobStaysOnRecord) {
  now_ = absl::FromUnixSeconds(1'800'000'000);
  const JobId job = SubmitAs("ann", "user ann");
  ApplyAs("admin root", ForgetJob{.job = job, .user = "root"});
  EXPECT_THAT(Events(), ElementsAre("job 1 of ann: removed mnist of ann, submitted at "
                                    "2027-01-15T08:00:00+00:00 by user ann by admin root"));
}

TEST_F(RemovedJobsTest, TheEventTellsThatTheFilesWentToo) {
  now_ = absl::FromUnixSeconds(1'800'000'000);
  const JobId job = SubmitAs("", "");
  ApplyAs("admin root", ForgetJob{.job = job, .user = "root", .with_files = true});
  EXPECT_THAT(Events(), ElementsAre("job 1 of : removed mnist of legacy, submitted at "
                                    "2027-01-15T08:00:00+00:00; with its files by admin root"));
}

TEST_F(RemovedJobsTest, AJobWhoseTimeOnRecordIsOverLeavesAnEventToo) {
  now_ = absl::FromUnixSeconds(1'800'000'000);
  Apply(ForgetJob{SubmitAs("ann", "user ann")});
  EXPECT_THAT(Events(), ElementsAre("job 1 of ann: forgotten mnist of ann, submitted at "
                                    "2027-01-15T08:00:00+00:00 by user ann; its time on record was "
                                    "over, or later jobs took its room by "));
}

TEST_F(RemovedJobsTest, TheyAreBoundedAsAllEventsAre) {
  for (size_t i = 0; i < EventHistory::kEventsMax + 3; ++i) {
    ApplyAs("user ann", ForgetJob{.job = SubmitAs("ann", "user ann"), .user = "ann"});
  }
  const size_t kept = coordinator_.state().events.events().size();
  EXPECT_LE(kept, EventHistory::kEventsMax);
  EXPECT_GT(kept, EventHistory::kEventsMax - 3);  // the last job had two others meanwhile
}

// Journals of earlier releases give the state that they gave there.
TEST_F(RemovedJobsTest, ARemovalOfVersionOneLeavesNoEvent) {
  Apply(ForgetJob{.job = SubmitAs("ann", "user ann"), .user = "ann", .version = 1});
  EXPECT_THAT(Events(), ElementsAre());
}

}  // namespace
}  // namespace dp::core
