#include "worker/trainer/loop/train_loop.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/ddp/replica.h"
#include "worker/engine/device/replicas/replicas.h"
#include "worker/trainer/model/evaluation.h"
#include "worker/trainer/testing/over_cpu.h"
#include "worker/trainer/testing/training.h"

namespace dp::trainer {
namespace {

struct Outcome {
  std::vector<float> weights;
  std::vector<v1::Metric> metrics;  // rank 0 only
};

// One rank, as RankProgram does it. It must succeed unless `ended` receives its status.
void TrainRank(
    const TrainingPlan& plan, engine::Group& group, const std::string& metrics_file,
    std::vector<float>& weights, absl::Status* ended = nullptr,
    const std::function<void(RankModel&)>& spoil = [](RankModel&) {},
    std::unique_ptr<engine::Device> device = std::make_unique<OverCpu>()) {
  const StripedImages train(/*size=*/50);
  const StripedImages test(/*size=*/13);
  engine::GlobalBatchSampler sampler = TrainSampler(plan, train, group.rank(), group.size());
  absl::StatusOr<RankModel> model = MakeRankModel(
      plan, train, RowsOf(plan, sampler), std::move(device), {.exchange = ExchangeOver(group)});
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(engine::AlignReplicas(group, model->layout, model->values->span()).ok());
  spoil(*model);
  engine::Reducer reducer(
      group, model->averaged, model->gradients->span(),
      {.buckets = {.first_bytes = plan.bucket_bytes_max, .cap_bytes = plan.bucket_bytes_max}});
  MetricLog log = *MetricLog::Open(metrics_file, Clock::System());
  Progress progress({.rank = group.rank(), .world_size = group.size(), .epochs_total = plan.epochs},
                    log, Clock::System());
  const absl::Status status =
      TrainLoop({plan, *model, group, reducer, sampler, train, test, progress}).Run().status();
  if (ended != nullptr) *ended = status;
  EXPECT_TRUE(ended != nullptr || status.ok()) << status;
  const absl::Span<float> values = model->values->span();
  weights.assign(values.begin(), values.end());
}

Outcome Train(const TrainingPlan& plan, int world_size) {
  const std::string path = ::testing::TempDir() + "train_loop_test.metrics";
  std::remove(path.c_str());
  auto groups = engine::MakeLocalGroups(world_size);
  std::vector<std::vector<float>> weights(groups.size());
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < groups.size(); ++rank) {
      ranks.emplace_back(
          [&, rank] { TrainRank(plan, *groups[rank], rank == 0 ? path : "", weights[rank]); });
    }
  }
  for (const std::vector<float>& replica : weights) EXPECT_EQ(replica, weights[0]);
  return {weights[0], ReadMetrics(path)};
}

std::vector<double> Losses(const Outcome& outcome) {
  std::vector<double> losses;
  for (const v1::Metric& metric : outcome.metrics) {
    if (metric.event() == "step") losses.push_back(metric.loss());
  }
  return losses;
}

const v1::Metric& LastEvaluation(const Outcome& outcome) {
  for (auto it = outcome.metrics.rbegin(); it != outcome.metrics.rend(); ++it) {
    if (it->event() == "eval") return *it;
  }
  return outcome.metrics.back();
}

TEST(TrainLoopTest, EveryWorldSizeGivesTheSameLossCurve) {
  const std::vector<double> alone = Losses(Train(APlan(), 1));
  ASSERT_EQ(alone.size(), 10u);  // 50 samples in batches of 12, the last one of 2; two epochs
  for (int world_size : {2, 3, 4}) {
    const std::vector<double> losses = Losses(Train(APlan(), world_size));
    ASSERT_EQ(losses.size(), alone.size());
    for (size_t step = 0; step < alone.size(); ++step) {
      EXPECT_NEAR(losses[step], alone[step], 1e-4 * alone[step])
          << "world size " << world_size << ", step " << step;
    }
  }
}

// The loss divides by the weights of the global batch, which lie unevenly on ranks and parts.
TEST(TrainLoopTest, LabelsWeighTheSameOnAnyNumberOfRanksAndParts) {
  TrainingPlan plan = APlan();
  plan.loss = engine::CrossEntropyLoss{
      .label_smoothing = 0.1, .ignored = 3, .class_weights = {0.5f, 1, 4, 100}};
  const Outcome alone = Train(plan, 1);
  for (const auto& [world_size, accumulate] : {std::pair(1, 2), {2, 1}, {3, 2}, {4, 1}}) {
    plan.accumulate = accumulate;
    const Outcome outcome = Train(plan, world_size);
    for (size_t step = 0; step < Losses(alone).size(); ++step) {
      EXPECT_NEAR(Losses(outcome)[step], Losses(alone)[step], 1e-5)
          << "world size " << world_size << ", step " << step;
    }
    for (size_t i = 0; i < alone.weights.size(); ++i) {
      ASSERT_NEAR(outcome.weights[i], alone.weights[i], 1e-5) << "world size " << world_size;
    }
    EXPECT_NEAR(LastEvaluation(outcome).loss(), LastEvaluation(alone).loss(), 1e-5);
    EXPECT_EQ(LastEvaluation(outcome).accuracy(), LastEvaluation(alone).accuracy());
  }
}

TEST(TrainLoopTest, WeightsThatAreAllEqualCancel) {
  TrainingPlan weighted = APlan();
  weighted.loss = engine::CrossEntropyLoss{.class_weights = {8, 8, 8, 8}};
  weighted.accumulate = 2;
  const Outcome plain = Train(APlan(), 2), outcome = Train(weighted, 2);
  for (size_t i = 0; i < plain.weights.size(); ++i) {
    ASSERT_NEAR(outcome.weights[i], plain.weights[i], 1e-5);
  }
  EXPECT_NEAR(Losses(outcome).back(), Losses(plain).back(), 1e-5);
  EXPECT_NEAR(LastEvaluation(outcome).loss(), LastEvaluation(plain).loss(), 1e-5);
}

// The 13 test samples have the labels 0 to 3 in turn, so ten count.
TEST(TrainLoopTest, IgnoredLabelsAreNoPartOfTheAccuracy) {
  TrainingPlan plan = APlan();
  plan.loss = engine::CrossEntropyLoss{.ignored = 3};
  const double accuracy = LastEvaluation(Train(plan, 2)).accuracy();
  EXPECT_NEAR(accuracy * 10, std::round(accuracy * 10), 1e-9);
}

// The 13 test samples lie unevenly on the ranks.
TEST(TrainLoopTest, MeasuresAreExactOnAnyNumberOfRanks) {
  TrainingPlan plan = APlan();
  plan.confusion_matrix = true;
  plan.layers.back().kind = model::Linear{.out = 7};
  plan.optimizer = engine::SgdOptions{.learning_rate = 1e-9};  // all ranks have the same weights
  const v1::Metric alone = LastEvaluation(Train(plan, 1));
  EXPECT_EQ(absl::c_accumulate(alone.confusion_matrix(), 0), 13);
  double hits = 0;
  for (int c = 0; c < 7; ++c) hits += alone.confusion_matrix(c * 7 + c);
  EXPECT_EQ(alone.accuracy(), hits / 13);
  EXPECT_GT(alone.top5_accuracy(), alone.accuracy());
  for (const int world_size : {2, 3, 5}) {
    const v1::Metric metric = LastEvaluation(Train(plan, world_size));
    EXPECT_THAT(metric.confusion_matrix(), ::testing::ElementsAreArray(alone.confusion_matrix()));
    EXPECT_EQ(metric.top5_accuracy(), alone.top5_accuracy());
  }
}

TEST(TrainLoopTest, AStepWithoutALabelThatCountsFailsOnAllRanks) {
  TrainingPlan plan = APlan();
  plan.loss = engine::CrossEntropyLoss{.class_weights = {0, 0, 0, 1e-3f}};
  plan.global_batch_size = 1;
  auto groups = engine::MakeLocalGroups(2);
  std::vector<absl::Status> ended(groups.size());
  std::vector<std::vector<float>> weights(groups.size());
  {
    std::vector<std::jthread> ranks;
    for (size_t rank = 0; rank < groups.size(); ++rank) {
      ranks.emplace_back(
          [&, rank] { TrainRank(plan, *groups[rank], "", weights[rank], &ended[rank]); });
    }
  }
  EXPECT_THAT(ended[0].message(), ::testing::HasSubstr("counts: each is train.loss"));
  EXPECT_EQ(ended[1], ended[0]);
}

TEST(TrainLoopTest, TheSameRunTwiceGivesTheSameBits) {
  for (int world_size : {3, 4}) {
    EXPECT_TRUE(SameBits(Train(APlan(), world_size).weights, Train(APlan(), world_size).weights));
  }
}

TEST(TrainLoopTest, AnotherBucketPlanGivesTheSameBits) {
  TrainingPlan many_buckets = APlan();
  many_buckets.bucket_bytes_max = 64;
  for (int world_size : {3, 4}) {
    EXPECT_TRUE(
        SameBits(Train(APlan(), world_size).weights, Train(many_buckets, world_size).weights));
  }
}

TEST(TrainLoopTest, EvaluationCountsEverySampleOnce) {
  for (int world_size : {1, 2, 3, 4}) {
    EXPECT_EQ(LastEvaluation(Train(APlan(), world_size)).samples(), 13);
  }
}

TEST(TrainLoopTest, StopsAtTheLastStepOfThePlan) {
  TrainingPlan plan = APlan();
  plan.steps_max = 7;
  const Outcome outcome = Train(plan, 2);
  EXPECT_EQ(Losses(outcome).size(), 7u);
  EXPECT_EQ(LastEvaluation(outcome).step(), 7);
}

// Results after the failure are neither a loss, nor finite weights, nor a test result.
// A small norm shrinks every gradient of plain SGD to it, so no step moves the weights further than
// the learning rate times the norm.
TEST(TrainLoopTest, ClippedGradientsMoveTheWeightsByTheNormAtMost) {
  TrainingPlan plan = APlan();
  plan.optimizer = engine::SgdOptions{.learning_rate = 1};
  plan.steps_max = 1;
  plan.evaluate_every = 0;
  TrainingPlan tiny = plan;
  plan.clip_norm = 0.01;
  tiny.clip_norm = 1e-9;
  const Outcome moved = Train(plan, 2), start = Train(tiny, 2);
  double squares = 0;
  for (size_t i = 0; i < moved.weights.size(); ++i)
    squares += std::pow(double{moved.weights[i]} - start.weights[i], 2);
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-5);
  EXPECT_GT(moved.metrics[1].gradient_norm(), 0.01);
  EXPECT_EQ(moved.metrics[1].gradient_norm(), start.metrics[1].gradient_norm());
}

TEST(TrainLoopTest, FrozenWeightsStayAndOthersMove) {
  TrainingPlan plan = APlan(), start = APlan();
  plan.groups = {{.match = "conv2d0.*", .options = {.frozen = true}}};
  start.optimizer = engine::SgdOptions{.learning_rate = 0};
  const Outcome trained = Train(plan, 2), begin = Train(start, 2);
  const auto model = MakeRankModel(APlan(), StripedImages(/*size=*/8), /*batch_size=*/2);
  for (const engine::Parameter& parameter : model->layout.parameters) {
    const auto part = [&](const Outcome& outcome) {
      return absl::MakeConstSpan(outcome.weights).subspan(parameter.offset, parameter.size);
    };
    EXPECT_EQ(part(trained) == part(begin), parameter.name.rfind("conv2d0.", 0) == 0)
        << parameter.name;
  }
}

TEST(TrainLoopTest, TheScheduleSetsTheRateOfEachStep) {
  TrainingPlan plan = APlan();
  plan.schedule = {.warmup_steps = 2, .decay = engine::StepDecay{.every_epochs = 1, .factor = 0.5}};
  std::vector<double> rates;
  for (const v1::Metric& metric : Train(plan, 2).metrics)
    if (metric.event() == "step") rates.push_back(metric.learning_rate());
  const std::vector<double> expected = {0.025, 0.05,  0.05,  0.05,  0.05,
                                        0.025, 0.025, 0.025, 0.025, 0.025};
  EXPECT_THAT(rates, ::testing::Pointwise(::testing::DoubleNear(1e-8), expected));
  EXPECT_NE(Train(plan, 2).weights, Train(APlan(), 2).weights);
}

// An epoch of the schedule is an epoch of the job, also where that is no pass over the data.
TEST(TrainLoopTest, ASchedulesEpochsAreTheJobs) {
  TrainingPlan plan = APlan();
  plan.steps_per_epoch = 3;
  plan.schedule = {.decay = engine::StepDecay{.every_epochs = 1, .factor = 0.5}};
  std::vector<double> rates;
  for (const v1::Metric& metric : Train(plan, 2).metrics)
    if (metric.event() == "step") rates.push_back(metric.learning_rate());
  const std::vector<double> expected = {0.05, 0.05, 0.05, 0.025, 0.025, 0.025};
  EXPECT_THAT(rates, ::testing::Pointwise(::testing::DoubleNear(1e-8), expected));
}

// Twelve samples of a step over two ranks, each in up to three parts of two; the last step is
// short.
TEST(TrainLoopTest, StepsInPartsAreThoseOfWholeShares) {
  TrainingPlan plan = APlan();
  plan.layers.insert(plan.layers.begin() + 3, {.name = "", .kind = model::Dropout{0.3}});
  for (const int world_size : {1, 2, 5}) {
    const Outcome whole = Train(plan, world_size);
    TrainingPlan in_parts = plan;
    in_parts.accumulate = 3;
    const Outcome outcome = Train(in_parts, world_size);
    ASSERT_EQ(outcome.metrics.size(), whole.metrics.size());
    for (size_t i = 0; i < whole.metrics.size(); ++i) {
      EXPECT_NEAR(outcome.metrics[i].loss(), whole.metrics[i].loss(), 1e-5);
      EXPECT_EQ(outcome.metrics[i].samples(), whole.metrics[i].samples());
    }
    ASSERT_EQ(outcome.weights.size(), whole.weights.size());
    for (size_t i = 0; i < whole.weights.size(); ++i)
      EXPECT_NEAR(outcome.weights[i], whole.weights[i], 1e-5) << i;
  }
}

TrainingPlan Normalizing(bool sync) {
  TrainingPlan plan = APlan();
  const model::LayerKind norm = model::BatchNorm{.sync = sync};
  // With a ReLU behind, and with a layer of rows behind.
  plan.layers.insert(plan.layers.begin() + 1, {.name = "", .kind = norm});
  plan.layers.push_back({.name = "", .kind = norm});
  plan.layers.push_back({.name = "", .kind = model::Linear{.out = 4}});
  return plan;
}

// Also where a rank has no sample of the last batch, which has two.
TEST(TrainLoopTest, SynchronizedNormsGiveWhatOneProcessGives) {
  const Outcome alone = Train(Normalizing(true), 1);
  EXPECT_EQ(alone.weights, Train(Normalizing(false), 1).weights);
  for (const int world_size : {2, 3, 4}) {
    const Outcome outcome = Train(Normalizing(true), world_size);
    for (size_t step = 0; step < Losses(alone).size(); ++step) {
      EXPECT_NEAR(Losses(outcome)[step], Losses(alone)[step], 1e-4 * Losses(alone)[step])
          << "world size " << world_size << ", step " << step;
    }
    // Weights and running statistics.
    for (size_t i = 0; i < alone.weights.size(); ++i) {
      ASSERT_NEAR(outcome.weights[i], alone.weights[i], 1e-4) << "world size " << world_size;
    }
    EXPECT_NEAR(LastEvaluation(outcome).loss(), LastEvaluation(alone).loss(), 1e-4);
  }
}

// Norms of each rank's own samples do not.
TEST(TrainLoopTest, OtherNormsChangeWithTheSplit) {
  const double alone = Losses(Train(Normalizing(false), 1)).back();
  EXPECT_GT(std::abs(Losses(Train(Normalizing(false), 3)).back() - alone), 1e-3 * alone);
}

// Parts are normalized over ranks. The last batch leaves some ranks without samples of some parts.
TEST(TrainLoopTest, SynchronizedNormsOfPartsMeetOnAllRanks) {
  TrainingPlan plan = Normalizing(true);
  plan.accumulate = 2;
  const Outcome two = Train(plan, 2);
  EXPECT_TRUE(SameBits(two.weights, Train(plan, 2).weights));
  EXPECT_EQ(Losses(Train(plan, 5)).size(), 10u);
}

TEST(TrainLoopTest, TheBucketsDoNotChangeSynchronizedNorms) {
  TrainingPlan many_buckets = Normalizing(true);
  many_buckets.bucket_bytes_max = 64;
  EXPECT_TRUE(SameBits(Train(Normalizing(true), 3).weights, Train(many_buckets, 3).weights));
}

// Seven epochs of three steps over passes of five: the order of the samples stays that of passes.
TEST(TrainLoopTest, EpochsOfSomeStepsGoOnThroughTheData) {
  TrainingPlan passes = APlan(), epochs = APlan();
  passes.epochs = 5;
  passes.steps_max = 21;
  epochs.epochs = 7;
  epochs.steps_per_epoch = 3;
  const Outcome expected = Train(passes, 2), outcome = Train(epochs, 2);
  EXPECT_EQ(outcome.weights, expected.weights);
  EXPECT_EQ(Losses(outcome), Losses(expected));
  EXPECT_EQ(absl::c_count_if(outcome.metrics,
                             [](const v1::Metric& metric) { return metric.event() == "eval"; }),
            7);
}

TEST(TrainLoopTest, ADeviceThatFailsEndsTheTraining) {
  constexpr int kStepsOfAnEpoch = 5;  // each step reads once; the weights are read after the last
  for (const int reads : {0, 3, kStepsOfAnEpoch}) {
    Training training("train_loop_test_failing");
    const auto outcome = training.Run({.plan = APlan(), .world_size = 1, .open_device = [&] {
                                         return std::make_unique<FailingDevice>(reads);
                                       }});
    EXPECT_EQ(outcome.status, FailingDevice::Failure());
    const auto metrics = training.metrics();
    EXPECT_EQ(std::count_if(metrics.begin(), metrics.end(),
                            [](const v1::Metric& metric) { return metric.event() == "step"; }),
              reads);
  }
}

TEST(TrainLoopTest, AReplicaThatFailsEndsTheTraining) {
  std::atomic<int> opened = 0;
  const auto open = [&opened]() -> absl::StatusOr<std::unique_ptr<engine::Device>> {
    if (opened++ == 0) return engine::OpenCpu(/*threads=*/1);  // it updates the weights
    return std::make_unique<FailingDevice>(/*reads=*/-1);
  };
  Training training("train_loop_test_replica");
  const auto outcome = training.Run({.plan = APlan(), .world_size = 1, .open_device = [&] {
                                       return engine::OpenReplicas(/*devices=*/2, open);
                                     }});
  EXPECT_EQ(outcome.status, FailingDevice::Failure());
}

// The other rank is in the next all-reduce by then, or will be.
TEST(TrainLoopTest, ARankThatFailsAloneWaitsForNoPeer) {
  auto groups = engine::MakeLocalGroups(2);
  std::vector<float> weights, peers_weights;
  absl::Status ended, peer_ended;
  std::jthread peer([&] { TrainRank(APlan(), *groups[1], "", peers_weights, &peer_ended); });
  TrainRank(
      APlan(), *groups[0], "", weights, &ended, [](RankModel&) {},
      std::make_unique<FailingDevice>(/*reads=*/3));
  EXPECT_EQ(ended, FailingDevice::Failure());
  const absl::Status queued = groups[0]->Barrier()->Wait();
  EXPECT_EQ(queued.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(queued.message()), ::testing::HasSubstr(ended.message()));
  groups[0].reset();
  peer.join();
  EXPECT_FALSE(peer_ended.ok());
}

TEST(TrainLoopTest, AnEvaluationOfADeviceThatHasFailedReachesNobody) {
  const StripedImages images(/*size=*/8);
  auto model = MakeRankModel(APlan(), images, /*batch_size=*/4,
                             std::make_unique<FailingDevice>(/*reads=*/0));
  ASSERT_TRUE(model.ok()) << model.status();
  model->ReadTail();
  const auto groups = engine::MakeLocalGroups(2);  // the other rank would be waited for
  EXPECT_EQ(Evaluate(*model, images, /*global_batch_size=*/8, *groups[0]).status(),
            FailingDevice::Failure());
}

TEST(TrainLoopTest, ALossThatIsNoNumberEndsTheTrainingAtItsStep) {
  TrainingPlan plan = APlan();
  plan.optimizer = engine::SgdOptions{.learning_rate = 1e30f};
  auto groups = engine::MakeLocalGroups(1);
  std::vector<float> weights;
  absl::Status ended;
  TrainRank(plan, *groups[0], "", weights, &ended);
  EXPECT_EQ(ended.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(ended.message()),
              ::testing::ContainsRegex("the loss is -?(nan|inf) at step [0-9]+"));
}

// How a training of one step ends in which a bias before a relu begins with this value.
absl::Status EndWithBias(float value) {
  TrainingPlan plan = APlan();
  plan.steps_max = 1;
  auto groups = engine::MakeLocalGroups(1);
  std::vector<float> weights;
  absl::Status ended;
  TrainRank(plan, *groups[0], "", weights, &ended, [value](RankModel& model) {
    for (const engine::Parameter& parameter : model.layout.parameters)
      if (parameter.name == "conv2d0.bias") model.values->span()[parameter.offset] = value;
  });
  return ended;
}

TEST(TrainLoopTest, AWeightThatIsNoNumberShowsInTheLoss) {
  const absl::Status ended = EndWithBias(std::nanf(""));
  EXPECT_EQ(ended.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(ended.message()), ::testing::HasSubstr("the loss is nan at step 1"));
}

// A relu turns what is below 0 into 0, so the loss shows nothing in the last step.
TEST(TrainLoopTest, WeightsThatAreInfiniteEndTheTrainingAfterTheEpoch) {
  const absl::Status ended = EndWithBias(-std::numeric_limits<float>::infinity());
  EXPECT_EQ(ended.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(ended.message()), ::testing::HasSubstr("after epoch 1"));
}

constexpr absl::Duration kOften = absl::Milliseconds(1);

// Runs FinishTogether on `ranks` ranks and returns each rank's result; `work` runs on rank 0.
std::vector<absl::Status> Finish(int ranks, const std::function<absl::Status()>& work) {
  const auto groups = engine::MakeLocalGroups(ranks);
  std::vector<absl::Status> ends(groups.size());
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank) {
    threads.emplace_back([&, rank] { ends[rank] = FinishTogether(*groups[rank], kOften, work); });
  }
  threads.clear();
  return ends;
}

TEST(FinishTogetherTest, RankZeroAloneWorksAndNobodyLeavesBefore) {
  std::atomic<int> calls = 0;
  std::atomic<bool> done = false;
  const auto groups = engine::MakeLocalGroups(2);
  std::promise<void> others_wait;
  std::jthread zero([&] {
    EXPECT_TRUE(FinishTogether(*groups[0], kOften, [&] {
                  ++calls;
                  others_wait.get_future().wait();
                  done = true;
                  return absl::OkStatus();
                }).ok());
  });
  std::jthread one([&] {
    EXPECT_TRUE(FinishTogether(*groups[1], kOften, [] { return absl::OkStatus(); }).ok());
    EXPECT_TRUE(done);
  });
  others_wait.set_value();
  zero.join();
  EXPECT_EQ(calls, 1);
}

TEST(FinishTogetherTest, WhatWentWrongIsRankZerosAlone) {
  const auto ends = Finish(3, [] { return absl::ResourceExhaustedError("the disk is full"); });
  EXPECT_EQ(ends[0], absl::ResourceExhaustedError("the disk is full"));
  EXPECT_TRUE(ends[1].ok() && ends[2].ok());
}

TEST(FinishTogetherTest, ARankZeroThatStandsStillIsMissed) {
  const auto groups = engine::MakeLocalGroups(2, {.timeout = absl::Milliseconds(20)});
  // Rank 0 never joins the all-reduce.
  const absl::Status end = FinishTogether(*groups[1], kOften, [] { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(end)) << end;
}

TEST(FinishTogetherTest, APeerThatIsLostDoesNotKeepRankZeroFromItsWork) {
  auto groups = engine::MakeLocalGroups(2);
  std::promise<void> lost;
  bool done = false;
  std::jthread zero([&] {
    EXPECT_TRUE(FinishTogether(*groups[0], kOften, [&] {
                  lost.get_future().wait();
                  done = true;
                  return absl::OkStatus();
                }).ok());
  });
  groups[1].reset();
  lost.set_value();
  zero.join();
  EXPECT_TRUE(done);
}

TEST(MakeRankModelTest, GradientsThatFindNoMemoryAreAnError) {
  const StripedImages images(/*size=*/8);
  const GradientMemory none = [](int64_t) -> absl::Span<float> { throw std::bad_alloc(); };
  const auto model = MakeRankModel(APlan(), images, /*batch_size=*/4,
                                   *engine::OpenCpu(/*threads=*/1), {.gradients = none});
  EXPECT_TRUE(absl::IsResourceExhausted(model.status())) << model.status();
}

}  // namespace
}  // namespace dp::trainer
