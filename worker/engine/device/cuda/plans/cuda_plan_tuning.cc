#include "worker/engine/device/cuda/plans/cuda_plan_tuning.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/device/cuda/plans/cuda_plan_choice.h"
#include "worker/engine/device/cuda/runtime/cuda_graph.h"
#include "worker/engine/device/cuda/runtime/cuda_status.h"

namespace dp::engine::cuda {
namespace {

constexpr int kTurns = 5;  // of each candidate that is worth it

// A card at rest runs at half its clock, and takes about this long to raise it.
constexpr float kRaisesClockMs = 300;
constexpr int kBusyRunsMax = 10'000;

// Measures time between two points of a stream.
class Stopwatch {
 public:
  static absl::StatusOr<Stopwatch> Make() {
    Stopwatch watch;
    for (Event* event : {&watch.start_, &watch.stop_}) {
      cudaEvent_t made = nullptr;
      DP_CUDA_RETURN_IF_ERROR(cudaEventCreate(&made));
      event->reset(made);
    }
    return watch;
  }

  // How long the work that `run` queues takes, in milliseconds.
  absl::StatusOr<float> Time(cudaStream_t stream, absl::FunctionRef<absl::Status()> run) {
    DP_CUDA_RETURN_IF_ERROR(cudaEventRecord(start_.get(), stream));
    DP_RETURN_IF_ERROR(run());
    DP_CUDA_RETURN_IF_ERROR(cudaEventRecord(stop_.get(), stream));
    DP_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(stop_.get()));
    float ms = 0;
    DP_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&ms, start_.get(), stop_.get()));
    return ms;
  }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
  };
  using Event = std::unique_ptr<CUevent_st, Destroy>;

  Event start_;
  Event stop_;
};

// Shorter work ends before the host's call returns, so the host's call would be timed instead.
constexpr float kShortMs = 0.2f;
constexpr int kRunsOfShort = 10;  // timed together

// The time of one run of a short candidate: the mean of several in a graph, as a step has them. If
// they cannot be captured, that of a single run.
absl::StatusOr<float> TimeShort(cudaStream_t stream, Stopwatch& watch,
                                absl::FunctionRef<absl::Status()> run) {
  const absl::StatusOr<GraphExec> graph = CaptureGraph(stream, [&]() -> absl::Status {
    for (int i = 0; i < kRunsOfShort; ++i) DP_RETURN_IF_ERROR(run());
    return absl::OkStatus();
  });
  if (!graph.ok()) return watch.Time(stream, run);
  DP_RETURN_IF_ERROR(graph->Launch(stream));
  DP_ASSIGN_OR_RETURN(const float ms, watch.Time(stream, [&] { return graph->Launch(stream); }));
  return ms / kRunsOfShort;
}

absl::Status NoCandidate(const TuningTask& task) {
  return absl::UnimplementedError(absl::StrCat(task.plan, ": the library has no algorithm"));
}

absl::Status BuildFirst(const TuningTask& task) {
  absl::Status first = NoCandidate(task);
  for (size_t i = 0; i < task.candidates.size(); ++i) {
    const absl::Status built = task.build(static_cast<int>(i));
    if (built.ok()) return built;
    if (i == 0) first = built;
  }
  return first;
}

// Whether the cache knew a candidate that could be built.
bool BuildCached(const Planning& planning, const TuningTask& task) {
  const absl::optional<std::string> cached = planning.cache.Find(task.plan);
  if (!cached) return false;
  const auto found = std::find(task.candidates.begin(), task.candidates.end(), *cached);
  const bool built = found != task.candidates.end() &&
                     task.build(static_cast<int>(found - task.candidates.begin())).ok();
  if (!built) Log(Severity::kWarning, "cuda_plan_gone", {{"plan", task.plan}, {"choice", *cached}});
  return built;
}

// The candidates of a task, timed in turns.
class Timing {
 public:
  Timing(const Planning& planning, const TuningTask& task, Stopwatch& watch)
      : planning_(planning), task_(task), watch_(watch) {}

  // The fastest candidate, built. Errors: the first candidate's if none can be run.
  absl::StatusOr<int> Run() {
    absl::Status first = NoCandidate(task_);
    const int count = std::min<int>(task_.candidates.size(), task_.timed_max);
    std::vector<CandidateTimes> tried(count), times(count);
    for (int i = 0; i < count; ++i) {
      const absl::StatusOr<float> ms = Try(i);
      if (!ms.ok() && i == 0) first = ms.status();
      if (ms.ok()) tried[i] = {*ms};
    }
    for (int turn = 0; turn < kTurns; ++turn) {
      for (const int i : WorthTiming(tried)) {
        const absl::StatusOr<float> ms = TimeAgain(i, /*is_short=*/tried[i].front() < kShortMs);
        if (ms.ok()) times[i].push_back(*ms);
      }
    }
    const absl::optional<int> best = FastestCandidate(times);
    if (!best) return first;
    DP_RETURN_IF_ERROR(task_.build(*best));
    return *best;
  }

 private:
  absl::StatusOr<float> Try(int candidate) {
    DP_RETURN_IF_ERROR(task_.build(candidate));
    DP_RETURN_IF_ERROR(task_.run());  // loads the kernel
    DP_RETURN_IF_ERROR(RaiseClock());
    DP_ASSIGN_OR_RETURN(const float ms, watch_.Time(planning_.stream, task_.run));
    return ms < kShortMs ? TimeShort(planning_.stream, watch_, task_.run) : ms;
  }
  absl::StatusOr<float> TimeAgain(int candidate, bool is_short) {
    DP_RETURN_IF_ERROR(task_.build(candidate));
    return is_short ? TimeShort(planning_.stream, watch_, task_.run)
                    : watch_.Time(planning_.stream, task_.run);
  }

  // Runs the candidate that is built until the card has been busy for long enough.
  absl::Status RaiseClock() {
    for (int i = 0; i < kBusyRunsMax && planning_.busy_ms < kRaisesClockMs; ++i) {
      DP_ASSIGN_OR_RETURN(const float ms, watch_.Time(planning_.stream, task_.run));
      planning_.busy_ms += ms;
    }
    return absl::OkStatus();
  }

  const Planning& planning_;
  const TuningTask& task_;
  Stopwatch& watch_;
};

absl::Status BuildFastest(const Planning& planning, const TuningTask& task) {
  DP_ASSIGN_OR_RETURN(Stopwatch watch, Stopwatch::Make());
  DP_ASSIGN_OR_RETURN(const int best, Timing(planning, task, watch).Run());
  planning.cache.Put(task.plan, task.candidates[best]);
  return absl::OkStatus();
}

}  // namespace

absl::Status BuildBest(const Planning& planning, const TuningTask& task) {
  if (planning.tuning == Tuning::kFirst) return BuildFirst(task);
  if (BuildCached(planning, task)) return absl::OkStatus();
  return BuildFastest(planning, task);
}

}  // namespace dp::engine::cuda
