#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/policy/testing/coordinator_fixture.h"

namespace dp::core {

// Jobs that wait for other jobs, for people and for slots.
class QueueFixture : public CoordinatorFixture {
 protected:
  JobId Submit(const Scheduling& scheduling, int ranks = 1, const std::string& name = "job") {
    return SubmitSpec({.name = name, .ranks = ranks, .payload = "", .scheduling = scheduling});
  }
  JobId SubmitBy(const std::string& user, int ranks, const Scheduling& scheduling = {}) {
    return std::get<JobId>(
        Apply(SubmitJob{absl::StrCat("by ", user, " ", absl::FormatTime(now_)),
                        {.name = "job", .ranks = ranks, .payload = "", .scheduling = scheduling},
                        user})
            .reply);
  }
  WorkerId RegisterWith(const std::string& host, int slots, Labels labels, int gpus = 0) {
    RegisterWorker worker{"", host, host + ".test", Incarnation(++life_), slots, {}, gpus};
    worker.labels = std::move(labels);
    return std::get<WorkerId>(Apply(worker).reply);
  }
  Waiting Look(JobId job) const {
    const Placement placement = PlanPlacement(coordinator_, policy_, now_);
    const auto it = placement.waiting.find(job);
    return it == placement.waiting.end() ? Waiting{} : it->second;
  }
  std::vector<std::string> reasons(JobId job) const {
    std::vector<std::string> texts;
    for (const PendingReason& reason : Look(job).reasons) texts.push_back(reason.text);
    return texts;
  }
  void End(JobId job, int code = 0) {
    for (int rank = 0; rank < coordinator_.job(job)->world_size(); ++rank) {
      ExitWith(job, rank, code), Release(job, rank);
    }
  }

 private:
  uint64_t life_ = 500;
};

}  // namespace dp::core
