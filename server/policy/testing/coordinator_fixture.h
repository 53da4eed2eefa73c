#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/core/coordinator.h"
#include "server/core/invariants.h"
#include "server/policy/placement.h"

namespace dp::core {

// The texts of the reasons why a job waits.
inline std::vector<std::string> TextsOf(const Placement& placement, JobId job) {
  std::vector<std::string> texts;
  const auto waiting = placement.waiting.find(job);
  if (waiting == placement.waiting.end()) return texts;
  for (const PendingReason& reason : waiting->second.reasons) texts.push_back(reason.text);
  return texts;
}

// A small language for tests: a coordinator whose invariants are checked after every command. Each
// command comes a second after the last. Incarnations of workers are numbered 101, 102, ...
class CoordinatorFixture : public testing::Test {
 protected:
  Outcome Apply(Action action) {
    now_ += absl::Seconds(1);
    journal_.push_back({now_, std::move(action)});
    const Outcome outcome = coordinator_.Apply(journal_.back());
    if (!outcome.journal) journal_.pop_back();
    EXPECT_EQ(absl::StrJoin(invariants_.Broken(coordinator_.state()), "\n"), "");
    return outcome;
  }

  WorkerId Register(const std::string& host, int slots, const std::string& name = "") {
    const Outcome outcome =
        Apply(RegisterWorker{name, host, host + ".test", Incarnation(++last_life_), slots});
    EXPECT_EQ(outcome.status, absl::OkStatus());
    return std::get<WorkerId>(outcome.reply);
  }

  JobId Submit(int ranks) { return SubmitSpec({"job", ranks, "spec"}); }
  // A program that makes no join call, on `nodes` workers.
  JobId SubmitCommand(int ranks, int nodes = 0) {
    return SubmitSpec({.name = "job", .ranks = ranks, .nodes = nodes, .joins_by_running = true});
  }
  JobId SubmitSpec(const JobSpec& spec) {
    const std::string request = absl::StrCat("request ", ++last_request_);
    const Outcome outcome = Apply(SubmitJob{request, spec});
    EXPECT_EQ(outcome.status, absl::OkStatus());
    return std::get<JobId>(outcome.reply);
  }

  // Applies the placement's verdicts.
  void PlaceAll() {
    for (const PlaceJob& place : PlanPlacement(coordinator_, policy_, now_).place) {
      EXPECT_EQ(Apply(place).status, absl::OkStatus());
    }
  }
  JobId SubmitAndPlace(int ranks) {
    const JobId job = Submit(ranks);
    PlaceAll();
    return job;
  }
  JobId SubmitCommandAndPlace(int ranks, int nodes = 0) {
    const JobId job = SubmitCommand(ranks, nodes);
    PlaceAll();
    return job;
  }
  JobId SubmitAndRun(int ranks) {
    const JobId job = SubmitAndPlace(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      Started(job, rank);
      Join(job, rank);
    }
    return job;
  }

  RankKey Key(JobId job, int rank) const { return {job, coordinator_.job(job)->generation, rank}; }
  ReportRank Report(JobId job, int rank, ReportRank::What what) const {
    ReportRank report;
    report.worker = coordinator_.job(job)->ranks.at(rank).worker_id;
    report.incarnation = coordinator_.worker(report.worker)->incarnation;
    report.rank = Key(job, rank);
    report.what = what;
    return report;
  }
  Outcome Started(JobId job, int rank) {
    ReportRank report = Report(job, rank, ReportRank::What::kStarted);
    report.pid = 1000 + rank;
    return Apply(report);
  }
  Outcome Join(JobId job, int rank) { return Apply(JoinWorld{Key(job, rank)}); }
  Outcome Exit(JobId job, int rank, core::Exit how, std::vector<std::string> last_lines = {}) {
    ReportRank report = Report(job, rank, ReportRank::What::kExited);
    report.exit = how;
    report.last_lines = std::move(last_lines);
    return Apply(report);
  }
  Outcome ExitWith(JobId job, int rank, int code) {
    return Exit(job, rank, {core::Exit::How::kCode, code});
  }
  Outcome Kill(JobId job, int rank, int signal) {
    return Exit(job, rank, {core::Exit::How::kSignal, signal});
  }
  Outcome Release(JobId job, int rank) {
    return Apply(Report(job, rank, ReportRank::What::kReleased));
  }
  Outcome Lose(WorkerId worker) {
    return Apply(LoseWorker{worker, life(worker), "no heartbeat for 6s"});
  }

  Incarnation life(WorkerId worker) const { return coordinator_.worker(worker)->incarnation; }
  std::string state(JobId job) const { return std::string(Name(coordinator_.job(job)->state)); }
  std::string rank_state(JobId job, int rank) const {
    return std::string(Name(coordinator_.job(job)->ranks.at(rank).state));
  }
  const Failure& failure(JobId job) const { return *coordinator_.job(job)->failure; }
  size_t free_slots(WorkerId worker) const {
    return coordinator_.worker(worker)->free_slots().size();
  }
  // "node1/0 node1/1 node2/0": worker and slot of each rank.
  std::string places(JobId job) const {
    return absl::StrJoin(coordinator_.job(job)->ranks, " ", [](std::string* out, const Rank& rank) {
      absl::StrAppend(out, rank.worker, "/", rank.slot);
    });
  }
  // "rank 0, rank 1 stop": the worker's assignment.
  std::string assigned(WorkerId worker) const {
    return absl::StrJoin(coordinator_.assignment(worker, life(worker))->ranks, ", ",
                         [](std::string* out, const AssignedRank& rank) {
                           absl::StrAppend(out, "rank ", rank.key.rank, rank.stop ? " stop" : "");
                         });
  }

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  PlacementPolicy policy_;
  Coordinator coordinator_;
  Invariants invariants_;
  std::vector<Command> journal_;  // the commands that a driver would have written

 private:
  uint64_t last_life_ = 100;
  int last_request_ = 0;
};

}  // namespace dp::core
