#pragma once

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/ddp/replica.h"
#include "worker/engine/device/testing/plain_step_program.h"
#include "worker/trainer/checkpoint/best_checkpoint.h"
#include "worker/trainer/checkpoint/checkpoint_fit.h"
#include "worker/trainer/checkpoint/resume.h"
#include "worker/trainer/loop/train_loop.h"
#include "worker/trainer/testing/fake_checkpoints.h"
#include "worker/trainer/testing/read_metrics.h"
#include "worker/trainer/testing/striped_images.h"

namespace dp::trainer {

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  // An empty vector may have no data.
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// One job's training, generation by generation, as RankProgram does it; the ranks are threads.
// Generations share only files and the coordinator's record.
class Training {
 public:
  explicit Training(const std::string& name)
      : directory_(::testing::TempDir() + name), metrics_(directory_ + ".metrics") {
    std::filesystem::remove_all(directory_);
    std::remove(metrics_.c_str());
  }

  using Groups = std::vector<std::unique_ptr<engine::Group>>;
  struct Options {
    TrainingPlan plan;
    int world_size = 3;
    int64_t every_steps = 0;
    int64_t leave_at = 0;  // rank 0 is asked to leave before this step; 0: never
    int keep = 2;
    // kNone: no program, only the parts. kOfBatches and kWithData: a program made of the device's
    // calls, which gets batches, or only sample numbers. kOfDevice: the device's own program.
    enum class Program { kNone, kOfBatches, kWithData, kOfDevice } program = Program::kNone;
    // How the ranks are connected, and on which device each computes.
    std::function<Groups(int size)> open_groups = [](int size) {
      return engine::MakeLocalGroups(size);
    };
    std::function<absl::StatusOr<std::unique_ptr<engine::Device>>()> open_device = [] {
      return engine::OpenCpu(/*threads=*/1);
    };
    // The order of a training that begins.
    engine::ReduceOrder sum_order = engine::ReduceOrder::kTree;
    // If not 0, rank 1 goes away after this step. It waits until rank 0 has begun the next step and
    // before_going() has returned.
    int64_t rank_one_gone_after = 0;
    std::function<void()> before_going = [] {};
  };
  struct Outcome {
    absl::Status status;
    TrainingEnd end = TrainingEnd::kDone;
    std::vector<float> weights;
  };

  // Runs the next generation. All ranks must end alike, except one that has gone away.
  Outcome Run(const Options& options) {
    ++generation_;
    Groups groups = options.open_groups(options.world_size);
    std::vector<Outcome> outcomes(groups.size());
    absl::Notification next_step_begun;
    {
      std::vector<std::jthread> ranks;
      for (size_t rank = 0; rank < groups.size(); ++rank) {
        ranks.emplace_back([&, rank] {
          Options mine = options;
          const bool goes = rank == 1 && options.rank_one_gone_after > 0;
          if (goes) mine.plan.steps_max = options.rank_one_gone_after;
          RunRank(mine, *groups[rank], outcomes[rank], next_step_begun);
          if (!goes) return;
          next_step_begun.WaitForNotification();
          options.before_going();
          groups[rank].reset();
        });
      }
    }
    if (options.rank_one_gone_after > 0) return outcomes[0];
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status, outcomes[0].status);
      EXPECT_EQ(outcome.end, outcomes[0].end);
      EXPECT_TRUE(SameBits(outcome.weights, outcomes[0].weights));
    }
    return outcomes[0];
  }

  // The metrics of rank 0, of all generations.
  std::vector<v1::Metric> metrics() const { return ReadMetrics(metrics_); }
  const std::string& directory() const { return directory_; }

  FakeCheckpoints coordinator;

 private:
  void RunRank(const Options& options, engine::Group& group, Outcome& outcome,
               absl::Notification& next_step_begun) {
    const StripedImages train(/*size=*/50), test(/*size=*/13);
    engine::GlobalBatchSampler sampler =
        TrainSampler(options.plan, train, group.rank(), group.size());
    absl::StatusOr<std::unique_ptr<engine::Device>> device = options.open_device();
    ASSERT_TRUE(device.ok()) << device.status();
    absl::StatusOr<RankModel> model =
        MakeRankModel(options.plan, train, RowsOf(options.plan, sampler), *std::move(device),
                      {.exchange = ExchangeOver(group)});
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_TRUE(engine::AlignReplicas(group, model->layout, model->values->span()).ok());
    engine::Reducer reducer(group, model->averaged, model->gradients->span(),
                            {.buckets = {.first_bytes = options.plan.bucket_bytes_max,
                                         .cap_bytes = options.plan.bucket_bytes_max},
                             .gradients_on_device = model->device->stream() != nullptr});
    const bool first = group.rank() == 0;
    MetricLog log = *MetricLog::Open(first ? metrics_ : "", Clock::System());
    Progress progress(
        {.rank = group.rank(), .world_size = group.size(), .epochs_total = options.plan.epochs},
        log, Clock::System());
    Environment environment;
    environment.job = JobId(1);
    environment.generation = Generation(generation_);
    environment.world_size = group.size();
    const auto manifest =
        ManifestOf(options.plan, environment, model->layout, train.size(), "local");
    if (options.sum_order != engine::ReduceOrder::kTree)
      progress.Resumed({.sum_order = options.sum_order}, {});
    outcome.status = GoOn(manifest, *model, group, progress);
    if (!outcome.status.ok()) return;
    std::optional<Saver> saver;
    if (first && options.every_steps > 0) {
      saver.emplace(Saver::Options{.directory = directory_,
                                   .every_steps = options.every_steps,
                                   .keep = options.keep,
                                   .best = options.plan.checkpoint.best,
                                   .manifest = manifest},
                    environment, *model, coordinator.connection(), Clock::System());
      ASSERT_TRUE(saver->Prepare(coordinator.on_record).ok());
      saver->Resumed(progress.position());
    }
    const auto asked = [&, step = progress.steps()]() mutable {
      ++step;  // the step that begins
      const int64_t gone_after = options.rank_one_gone_after;
      if (first && gone_after > 0 && step == gone_after + 1) next_step_begun.Notify();
      return first && options.leave_at > 0 && step >= options.leave_at;
    };
    const auto program = MakeProgram(options.program, *model, train,
                                     group.size() == 1 ? nullptr : &reducer, sampler.capacity());
    TrainLoop loop({.plan = options.plan,
                    .model = *model,
                    .group = group,
                    .reducer = reducer,
                    .sampler = sampler,
                    .train_set = train,
                    .test_set = test,
                    .progress = progress,
                    .saver = saver ? &*saver : nullptr,
                    .program = program.get(),
                    .asked_to_leave = asked});
    const auto end = loop.Run();
    if (end.ok()) {
      EXPECT_EQ(loop.SaveEnd(), absl::OkStatus());
    }
    outcome.status = end.status();
    if (end.ok() && options.plan.weights_of_best) {
      outcome.status =
          TakeBest(saver ? saver->best() : std::nullopt, manifest, progress.steps(), *model, group)
              .status();
    }
    if (end.ok()) outcome.end = *end;
    outcome.weights.resize(static_cast<size_t>(model->layout.size));
    model->device->Read(model->values->span(), absl::MakeSpan(outcome.weights));
  }

  static std::unique_ptr<engine::StepProgram> MakeProgram(Options::Program which, RankModel& model,
                                                          const engine::Dataset& data,
                                                          engine::Reducer* reducer, int rows) {
    using Program = Options::Program;
    const engine::StepProgram::Parts parts = {.network = *model.network,
                                              .optimizer = *model.optimizer,
                                              .data = data,
                                              .tail = model.tail(),
                                              .reducer = reducer};
    if (which == Program::kNone) return nullptr;
    if (which == Program::kOfDevice) return *model.device->MakeStepProgram(parts);
    return std::make_unique<engine::PlainStepProgram>(*model.device, parts, rows,
                                                      which == Program::kWithData);
  }

  absl::Status GoOn(const v1::CheckpointManifest& manifest, RankModel& model, engine::Group& group,
                    Progress& progress) const {
    std::vector<ResumePoint> points;
    for (const v1::Checkpoint& one : coordinator.on_record) {
      points.push_back({one.path(), one.sha256()});
    }
    const auto resumed = Resume(points, manifest, model, group);
    if (!resumed.ok()) return resumed.status();
    if (!resumed->has_value()) return absl::OkStatus();
    v1::Metric told;
    told.set_path((*resumed)->path);
    told.set_message((*resumed)->message);
    progress.Resumed((*resumed)->position, told);
    return absl::OkStatus();
  }

  const std::string directory_, metrics_;
  uint64_t generation_ = 0;
};

}  // namespace dp::trainer
