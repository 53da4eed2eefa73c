#include "tests/journals/life.h"

#include <string>
#include <utility>

namespace dp::journals {
namespace {

using core::ReportRank;

const Incarnation kA(0xa000000000000001), kB(0xb000000000000002), kC(0xc000000000000003);

core::RankKey Rank(uint64_t job, int rank) { return {JobId(job), Generation(1), rank}; }

ReportRank Report(uint64_t job, int rank, ReportRank::What what, uint64_t worker,
                  Incarnation life) {
  return {.worker = WorkerId(worker), .incarnation = life, .rank = Rank(job, rank), .what = what};
}

class Life {
 public:
  void Add(core::Action action) {
    now_ += absl::Milliseconds(1500);
    commands_.push_back({now_, std::move(action)});
  }

  // Places the job on slot 0 of each worker, and joins its ranks.
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
    exited.last_lines = {"the last line but one", "the last line, \xff"};
    Add(exited);
    Add(Report(job, rank, ReportRank::What::kReleased, rank + 1, rank ? kB : kA));
  }

  std::vector<core::Command> Take() { return std::move(commands_); }

 private:
  absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  std::vector<core::Command> commands_;
};

void SucceedAndFail(Life& life) {
  life.Add(core::SubmitJob{"request 1", {"good", 2, "payload", true, 2, true}});
  life.Run(1, 29500);
  for (const int rank : {0, 1}) life.End(1, rank, {Exit::How::kCode, 0});
  life.Add(core::SubmitJob{"request 2", {"bad", 2, std::string("\0\x01", 2), false, 2, false}});
  life.Run(2, 0);
  life.Add(core::JoinWorld{Rank(2, 0)});
  life.End(2, 1, {Exit::How::kSignal, 9});
  life.End(2, 0, {Exit::How::kCode, 143});
}

void Hang(Life& life) {
  life.Add(core::SubmitJob{"request 3", {"hangs", 2, "payload", false, 2, true}});
  life.Run(3, 0);
  life.Add(core::AccusePeers{Rank(3, 0), {1}, "all_reduce 7: rank 1 did not arrive", true});
  for (const int rank : {0, 1}) life.End(3, rank, {Exit::How::kSignal, 15});
}

// One is to have another generation when the journal ends; one has none left.
void Retry(Life& life) {
  const core::RestartLimits limits{.user = 2, .oom = 1, .never_exit_codes = {2}};
  for (const uint64_t job : {4, 5}) {
    const std::string name = job == 4 ? "again" : "over";
    life.Add(core::SubmitJob{name, {name, 2, "payload", false, 2, true, limits}});
    life.Run(job, 0);
    life.End(job, 0, {Exit::How::kCode, 3});
    life.End(job, 1, {Exit::How::kSignal, 15});
  }
  life.Add(core::RetryJob{JobId(4), Generation(1), absl::FromUnixSeconds(1'800'001'000),
                          core::FailureClass::kUser});
  life.Add(core::FinishJob{JobId(5), Generation(1), "exit code 3 three times"});
}

void RunWithStore(Life& life) {
  life.Add(core::SubmitJob{"request 6", {"runs", 2, "payload", true, 2, true}});
  life.Run(6, 29501);
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

// After the snapshot, where there is one.
void Later(Life& life) {
  life.Add(
      core::StartEpoch{{.key_bytes = 100, .value_bytes = 200, .keys = 300, .total_bytes = 4000}});
  life.Add(core::StoreBatch{JobId(6), Generation(1), 77, 2, {StoreQueuePush{"queue", "another"}}});
  life.Add(core::SubmitJob{"request 7", {"waits", 64, "payload", false, 0, false}});
  life.Add(core::SubmitJob{"request 8", {"unwanted", 1, "payload"}});
  life.Add(core::CancelJob{JobId(8)});
  life.Add(core::RegisterWorker{"", "host-c", "10.0.0.3", kC, 1});
  life.Add(core::LoseWorker{WorkerId(3), kC, "silent for 5s"});
  life.Add(core::LeaveWorker{WorkerId(2), kB});
}

}  // namespace

std::vector<core::Command> ALife() {
  Life life;
  life.Add(core::StartEpoch{});
  life.Add(core::RegisterWorker{"a", "host-a", "10.0.0.1", kA, 2, {4001, 4002}, 2});
  life.Add(core::RegisterWorker{"b", "host-b", "10.0.0.2", kB, 2});
  SucceedAndFail(life);
  Hang(life);
  Retry(life);
  RunWithStore(life);
  Checkpoint(life);
  Later(life);
  return life.Take();
}

}  // namespace dp::journals
