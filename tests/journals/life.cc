#include "tests/journals/life.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/rank.h"
#include "dp/v1/job_spec.pb.h"

namespace dp::journals {
namespace {

using core::ReportRank;

const Incarnation kA(0xa000000000000001), kB(0xb000000000000002), kC(0xc000000000000003);

core::RankKey Rank(uint64_t job, int rank) { return {JobId(job), Generation(1), rank}; }

ReportRank Report(uint64_t job, int rank, ReportRank::What what, uint64_t worker,
                  Incarnation life) {
  return {.worker = WorkerId(worker), .incarnation = life, .rank = Rank(job, rank), .what = what};
}

// The payload that the coordinator makes from a job file.
std::string PayloadOf(const core::JobSpec& job) {
  v1::JobSpec spec;
  spec.set_name(job.name);
  spec.set_ranks(job.ranks);
  spec.mutable_command()->add_argv("true");
  return spec.SerializeAsString();
}

class Life {
 public:
  void Add(core::Action action) {
    if (auto* submit = std::get_if<core::SubmitJob>(&action)) {
      submit->spec.payload = PayloadOf(submit->spec);
    }
    now_ += absl::Milliseconds(1500);
    commands_.push_back({now_, std::move(action)});
  }

  // Places the job on slot 0 of each worker, and starts its ranks.
  void Run(uint64_t job, int store_port) {
    Add(core::PlaceJob{JobId(job), {{WorkerId(1), 0}, {WorkerId(2), 0}}, store_port});
    for (const int rank : {0, 1}) {
      ReportRank started = Report(job, rank, ReportRank::What::kStarted, rank + 1, rank ? kB : kA);
      started.pid = 4000 + static_cast<int64_t>(job) * 10 + rank;
      Add(started);
    }
  }
  void End(uint64_t job, int rank, Exit exit) {
    ReportRank exited = Report(job, rank, ReportRank::What::kExited, rank + 1, rank ? kB : kA);
    exited.exit = exit;
    exited.last_lines = {"the last line but one", "the last line, \u00e9"};
    Add(exited);
    Add(Report(job, rank, ReportRank::What::kReleased, rank + 1, rank ? kB : kA));
  }

  // Runs one generation of a job of one rank, on slot 1 of the first worker.
  void RunAlone(uint64_t job, uint64_t generation = 1) {
    StartAlone(job, generation);
    Add(core::JoinWorld{{JobId(job), Generation(generation), 0}});
  }
  void StartAlone(uint64_t job, uint64_t generation = 1) {
    Add(core::PlaceJob{JobId(job), {{WorkerId(1), 1}}});
    ReportRank started = OfAlone(job, generation, ReportRank::What::kStarted);
    started.pid = 5000 + static_cast<int64_t>(job);
    Add(started);
  }
  void EndAlone(uint64_t job, Exit exit, uint64_t generation = 1) {
    ReportRank exited = OfAlone(job, generation, ReportRank::What::kExited);
    exited.exit = exit;
    Add(exited);
    Add(OfAlone(job, generation, ReportRank::What::kReleased));
  }
  void RetryAlone(uint64_t job, uint64_t generation = 1) {
    Add(core::RetryJob{JobId(job), Generation(generation), now_, {}});
  }
  absl::Time now() const { return now_; }

  std::vector<core::Command> Take() { return std::move(commands_); }

 private:
  static ReportRank OfAlone(uint64_t job, uint64_t generation, ReportRank::What what) {
    return {.worker = WorkerId(1),
            .incarnation = kA,
            .rank = {JobId(job), Generation(generation), 0},
            .what = what};
  }

  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::vector<core::Command> commands_;
};

void SucceedAndFail(Life& life) {
  life.Add(core::SubmitJob{"request 1", {"good", 2, "", true, 2, true}});
  life.Run(1, 29500);
  for (const int rank : {0, 1}) life.End(1, rank, {Exit::How::kCode, 0});
  life.Add(core::SubmitJob{"request 2", {"bad", 2, "", false, 2, false}});
  life.Run(2, 0);
  life.Add(core::JoinWorld{Rank(2, 0)});
  life.End(2, 1, {Exit::How::kSignal, 9});
  life.End(2, 0, {Exit::How::kCode, 143});
}

void Hang(Life& life) {
  life.Add(core::SubmitJob{"request 3", {"hangs", 2, "", false, 2, true}});
  life.Run(3, 0);
  life.Add(core::AccusePeers{Rank(3, 0), {1}, "all_reduce 7: rank 1 did not arrive", true});
  for (const int rank : {0, 1}) life.End(3, rank, {Exit::How::kSignal, 15});
}

// When the journal ends, job 4 awaits its next generation; job 5 has no restart left.
void Retry(Life& life) {
  const core::RestartLimits limits{.user = 2, .oom = 1, .never_exit_codes = {2}};
  for (const uint64_t job : {4, 5}) {
    const std::string name = job == 4 ? "again" : "over";
    life.Add(core::SubmitJob{name, {name, 2, "", false, 2, true, limits}});
    life.Run(job, 0);
    life.End(job, 0, {Exit::How::kCode, 3});
    life.End(job, 1, {Exit::How::kSignal, 15});
  }
  life.Add(core::RetryJob{JobId(4), Generation(1), absl::FromUnixSeconds(1'800'001'000),
                          core::FailureClass::kUser});
  life.Add(core::FinishJob{JobId(5), Generation(1), "exit code 3 three times"});
}

void RunWithStore(Life& life) {
  life.Add(core::SubmitJob{"request 6", {"runs", 2, "", true, 2, true}});
  life.Run(6, 29501);
  life.Add(core::CompleteFirstStep{Rank(6, 0)});
  life.Add(core::StopEarly{Rank(6, 0), "loss has not improved"});
  life.Add(core::StoreBatch{
      JobId(6),
      Generation(1),
      77,
      1,
      {StoreSet{"key", std::string("\0value", 6)}, StoreAppend{"key", "+"}, StoreAdd{"count", 41},
       StoreQueuePush{"queue", "element"}, StoreCompareSet{"new", "", "set"},
       StoreSet{"gone", "soon"}, StoreDelete{"gone"}}});
  life.Add(core::StoreBatch{
      JobId(6), Generation(1), 78, 1, {StoreAdd{"count", 1}, StoreAdd{"key", 1}}, {1, 1}});
}

void Checkpoint(Life& life) {
  const std::string sha256(64, 'a');
  for (const int64_t step : {100, 200, 300}) {
    life.Add(core::RegisterCheckpoint{Rank(6, 0), step, "/ckpt/step", sha256, 1 << 20, 2});
  }
  life.Add(core::RegisterWeights{Rank(6, 0), "/ckpt/weights.safetensors", sha256, 1 << 10});
  life.Add(core::AskHandover{JobId(6), "worker b is drained"});
}

const Exit kLeft = {Exit::How::kCode, kHandedOverExitCode};

// A training that saves, with every setting of when and where it runs.
core::JobSpec Saving(const std::string& name, core::Scheduling scheduling) {
  return {.name = name,
          .nodes = 1,
          .restart = core::RestartLimits(),
          .nodes_max = 2,
          .scheduling = std::move(scheduling),
          .grace = absl::Seconds(7),
          .saves = true,
          .gpu_training = true};
}

// Job 7 hands its slot to job 8, which ends and is forgotten. Job 7 then comes back and is
// requeued.
void Preempt(Life& life) {
  life.Add(core::SubmitJob{"request 7",
                           Saving("victim", {.queue = "batch",
                                             .priority = -1,
                                             .hold = true,
                                             .slots = core::SlotKind::kGpu,
                                             .preemptible = true,
                                             .grow_after = absl::Minutes(10)}),
                           "ann"});
  life.Add(core::ReleaseJob{JobId(7)});
  life.Add(core::PrioritizeJob{JobId(7), -2});
  life.RunAlone(7);
  life.Add(core::SubmitJob{"request 8",
                           {.name = "urgent",
                            .scheduling = {.after = {{JobId(1), true}},
                                           .singleton = true,
                                           .ttl_after_finish = absl::Minutes(1),
                                           .constraints = {*ParseConstraint("worker!=b")}}}});
  life.Add(core::AskHandover{JobId(7), "job 8 of priority 0 takes its slots",
                             core::HandoverCause::kPreempt, JobId(8),
                             life.now() + absl::Seconds(7)});
  life.EndAlone(7, kLeft);
  life.RetryAlone(7);
  life.RunAlone(8);
  life.EndAlone(8, {Exit::How::kCode, 0});
  life.Add(core::ForgetJob{JobId(8)});
  life.RunAlone(7, 2);
  life.Add(core::RequeueJob{JobId(7), Generation(2), ""});
  life.EndAlone(7, {Exit::How::kSignal, 15}, 2);
  life.RetryAlone(7, 2);
  life.Add(core::HoldJob{JobId(7)});
}

// Job 9 saves before its deadline, job 10 does not.
void RunOutOfTime(Life& life) {
  for (const uint64_t job : {9, 10}) {
    life.Add(core::SubmitJob{absl::StrCat("request ", job),
                             Saving("long", {.max_duration = absl::Hours(1)})});
    life.RunAlone(job);
    life.Add(core::AskHandover{JobId(job), "its maxDuration of 1h is nearly over",
                               core::HandoverCause::kDeadline});
    if (job == 10) life.Add(core::ExpireJob{JobId(job)});
    life.EndAlone(job, job == 9 ? kLeft : Exit{Exit::How::kSignal, 15});
  }
}

void GiveUp(Life& life) {
  core::JobSpec spec{.name = "silent", .join_within = absl::Seconds(32)};
  life.Add(core::SubmitJob{"request 11", std::move(spec)});
  life.StartAlone(11);
  life.Add(core::GiveUpRank{{JobId(11), Generation(1), 0}, "it has not joined"});
  life.EndAlone(11, {Exit::How::kSignal, 15});
}

// When the journal ends, job 12 is about to come back larger.
void Grow(Life& life) {
  life.Add(core::SubmitJob{"request 12", Saving("grows", {})});
  life.RunAlone(12);
  life.Add(core::AskHandover{JobId(12), "it can grow", core::HandoverCause::kGrow});
}

void Drain(Life& life) {
  life.Add(core::DrainWorker{"b", "new disks", /*hand_over=*/true});
  life.Add(core::UndrainWorker{"b"});
  life.Add(core::DrainWorker{"b", "new disks again"});
}

// These commands come after the snapshot, if there is one.
void Later(Life& life) {
  life.Add(
      core::StartEpoch{{.key_bytes = 100, .value_bytes = 200, .keys = 300, .total_bytes = 4000}});
  life.Add(core::StoreBatch{JobId(6), Generation(1), 77, 2, {StoreQueuePush{"queue", "another"}}});
  life.Add(core::SubmitJob{"request 13", {"waits", 64, "", false, 0, false}});
  life.Add(core::SubmitJob{"request 14", {"unwanted", 1}});
  life.Add(core::CancelJob{JobId(14)});
  life.Add(core::RegisterWorker{"", "host-c", "10.0.0.3", kC, 1});
  life.Add(core::LoseWorker{WorkerId(3), kC, "silent for 5s"});
  life.Add(core::ReportSlots{WorkerId(2), kB, 3, {{1, "GPU 1 still holds 9 MiB"}}});
  life.Add(core::LeaveWorker{WorkerId(2), kB});
  life.Add(core::GrantRole{"ann", security::Role::kAdmin});
  life.Add(core::GrantRole{"bob", security::Role::kViewer});
  life.Add(core::RevokeAccess{"bob", false, absl::FromUnixSeconds(1'700'000'000)});
  life.Add(core::UseToken{"0123456789abcdef",
                          /*uses_max=*/2,
                          absl::FromUnixSeconds(2'000'000'000),
                          {security::Role::kWorker, ""},
                          "host-d"});
}

}  // namespace

std::vector<core::Command> ALife() {
  Life life;
  life.Add(core::StartEpoch{});
  life.Add(core::RegisterWorker{"a",
                                "host-a",
                                "10.0.0.1",
                                kA,
                                2,
                                {4001, 4002},
                                2,
                                {},
                                "",
                                "",
                                /*trains_on_gpus=*/true});
  life.Add(core::RegisterWorker{"b", "host-b", "10.0.0.2", kB, 2});
  SucceedAndFail(life);
  Hang(life);
  Retry(life);
  RunWithStore(life);
  Checkpoint(life);
  Preempt(life);
  RunOutOfTime(life);
  GiveUp(life);
  Grow(life);
  Drain(life);
  Later(life);
  return life.Take();
}

}  // namespace dp::journals
