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

constexpr int kRuns = 5;  // of each candidate, after its warm-up

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

// kRuns times of one run each, where `run` queues `at_once` runs one behind the other.
absl::StatusOr<CandidateTimes> TimeEach(cudaStream_t stream, Stopwatch& watch, int at_once,
                                        absl::FunctionRef<absl::Status()> run) {
  CandidateTimes times;
  for (int i = 0; i < kRuns; ++i) {
    DP_ASSIGN_OR_RETURN(const float ms, watch.Time(stream, run));
    times.push_back(ms / static_cast<float>(at_once));
  }
  return times;
}

// Times short runs as a graph, as a step has them, or one by one if that cannot be captured.
absl::StatusOr<CandidateTimes> TimeRuns(cudaStream_t stream, Stopwatch& watch,
                                        absl::FunctionRef<absl::Status()> run) {
  DP_RETURN_IF_ERROR(run());
  DP_ASSIGN_OR_RETURN(const float ms, watch.Time(stream, run));
  if (ms >= kShortMs) return TimeEach(stream, watch, /*at_once=*/1, run);
  const absl::StatusOr<GraphExec> graph = CaptureGraph(stream, [&]() -> absl::Status {
    for (int i = 0; i < kRunsOfShort; ++i) DP_RETURN_IF_ERROR(run());
    return absl::OkStatus();
  });
  if (!graph.ok()) return TimeEach(stream, watch, /*at_once=*/1, run);
  DP_RETURN_IF_ERROR(graph->Launch(stream));
  return TimeEach(stream, watch, kRunsOfShort, [&] { return graph->Launch(stream); });
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

absl::StatusOr<CandidateTimes> BuildAndTime(const Planning& planning, const TuningTask& task,
                                            Stopwatch& watch, int candidate) {
  DP_RETURN_IF_ERROR(task.build(candidate));
  return TimeRuns(planning.stream, watch, task.run);
}

absl::Status BuildFastest(const Planning& planning, const TuningTask& task) {
  DP_ASSIGN_OR_RETURN(Stopwatch watch, Stopwatch::Make());
  absl::Status first = NoCandidate(task);
  std::vector<CandidateTimes> times;
  const int count = std::min<int>(task.candidates.size(), kCandidatesMax);
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<CandidateTimes> timed = BuildAndTime(planning, task, watch, i);
    if (!timed.ok() && i == 0) first = timed.status();
    times.push_back(timed.ok() ? *std::move(timed) : CandidateTimes());
  }
  const absl::optional<int> best = FastestCandidate(times);
  if (!best) return first;
  planning.cache.Put(task.plan, task.candidates[*best]);
  return task.build(*best);
}

}  // namespace

absl::Status BuildBest(const Planning& planning, const TuningTask& task) {
  if (planning.tuning == Tuning::kFirst) return BuildFirst(task);
  if (BuildCached(planning, task)) return absl::OkStatus();
  return BuildFastest(planning, task);
}

}  // namespace dp::engine::cuda
