// dpctl checks a job before it sends the job; the coordinator checks every job that it receives.
// Both must accept the same jobs, and reject others in the same words. dpctl adds the place.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/job/job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"
#include "server/rpc/job_spec_check.h"

namespace dp {
namespace {

using ::testing::EndsWith;

constexpr char kJob[] = R"(
apiVersion: dp/v1
kind: Job
name: small
train:
  globalBatchSize: 100000
  data: {dir: /data}
  model: {preset: mlp}
  optimizer: {sgd: {learningRate: 0.1}}
)";

struct Verdicts {
  absl::Status client;
  absl::Status server;
};

Verdicts Check(const std::vector<std::string>& changes) {
  auto job = client::ParseJobFile(kJob, "job.yaml", changes);
  EXPECT_TRUE(job.ok()) << job.status();
  FillDefaults(job->source, job->spec);
  const auto no_data_here = [](const v1::DataSpec&) { return std::nullopt; };
  return {CheckJob(job->spec, job->source, no_data_here), server::CheckJobSpec(job->spec).status()};
}

std::vector<std::string> LastGoodValues() {
  return {"ranks=1",
          "ranks=10000",
          "threadsPerRank=1024",
          "memoryMibPerRank=1073741824",
          "memoryMibPerRank=0",
          "grace=0s",
          "grace=1h",
          "detectWithin=1s",
          "detectWithin=24h",
          "train.bucketCapMb=1048576",
          "restart.maxRestarts=1000",
          "restart.startup=10",
          "restart.window=720h",
          "restart.neverRetryExitCodes=[1, 255]",
          "train.onIsolation=stop",
          "train.device=cpu",
          "train.device=cuda",
          "train.bucketCapMb=0.001",
          "train.epochs=2147483647",
          "train.maxSteps=0",
          "train.evaluateEvery=0",
          "train.checkpoint={dir: /c, everySteps: 1, keep: 1}",
          "train.checkpoint={dir: /c, every: 1s, keep: 1000}",
          "train.checkpoint={dir: /c, every: 8760h}",
          "train.data={dir: /d, mean: [0.5, 0.25], std: 2, classes: 16777216, validation: 0.999}",
          "train.data={kind: cifar100, dir: /d, prefetchThreads: 256}",
          "train.data={kind: arrays, validation: 0.1, arrays: {train: {inputs: /x, labels: /y}}}",
          "train.data={kind: csv, train: [/a], test: [/b], csv: {labels: x, delimiter: ;}}",
          "train.data={kind: imageFolder, dir: /d, size: [8192, 1], channels: 1}",
          "train.data={kind: imageFolder, dir: /d, size: [8, 8], augment: {resizedCrop: {}}}",
          "train.data={dir: /d, augment: {flip: true, crop: {padding: 8192}}}",
          "train.data={kind: synthetic, classes: 10, synthetic: {shape: [1, 28, 28], samples: 1}}",
          "queue=batch-2",
          "priority=1000",
          "priority=-1000",
          "maxDuration=1s",
          "maxDuration=8760h",
          "ttlAfterFinish=0s",
          "ttlAfterFinish=8760h",
          "slots=gpu",
          "preemptible=true",
          "growAfter=0s",
          "train.nodes=1:10000",
          "train.nprocPerNode=10000",
          "after=[7, any:8]",
          "constraints=[a=b, a!=b, a, '!a']",
          "env={D: x}",
          "env={D: " + std::string(131069, 'x') + "}",
          "name=" + std::string(63, 'a')};
}

TEST(JobCheckConformanceTest, TheLastGoodValueOfEachFieldPassesBoth) {
  for (const std::string& change : LastGoodValues()) {
    const Verdicts verdicts = Check({change});
    EXPECT_TRUE(verdicts.client.ok()) << change.substr(0, 80) << ": " << verdicts.client;
    EXPECT_TRUE(verdicts.server.ok()) << change.substr(0, 80) << ": " << verdicts.server;
  }
}

std::vector<std::string> FirstBadValues() {
  return {"ranks=10001",
          "ranks=-1",
          "threadsPerRank=1025",
          "memoryMibPerRank=1073741825",
          "memoryMibPerRank=-1",
          "grace=-1ns",
          "grace=1h1s",
          "detectWithin=999ms",
          "detectWithin=24h1s",
          "train.bucketCapMb=1048577",
          "restart.maxRestarts=1001",
          "restart.infra=-1",
          "restart.startup=11",
          "restart.window=0s",
          "restart.window=721h",
          "restart.alwaysRetryExitCodes=[256]",
          "restart.neverRetryExitCodes=[0]",
          "train.onIsolation=maybe",
          "train.device=gpu",
          "train.device=CUDA",
          "growAfter=1h",
          "growAfter=-1s",
          "train.nodes=2:1",
          "train.nodes=1:10001",
          "train.nprocPerNode=0",
          "train.bucketCapMb=-1",
          "train.epochs=-1",
          "train.maxSteps=-1",
          "train.evaluateEvery=-1",
          "train.checkpoint={everySteps: 1}",
          "train.checkpoint={dir: c, everySteps: 1}",
          "train.checkpoint={dir: /c}",
          "train.checkpoint={dir: /c, everySteps: 1, every: 1h}",
          "train.checkpoint={dir: /c, everySteps: -1}",
          "train.checkpoint={dir: /c, every: 999ms}",
          "train.checkpoint={dir: /c, every: 8761h}",
          "train.checkpoint={dir: /c, every: 1h, keep: 1001}",
          "train.checkpoint={dir: /c, every: 1h, keep: -1}",
          "train.resume={from: [{path: there}]}",
          "queue=Batch",
          "priority=1001",
          "priority=-1001",
          "maxDuration=999ms",
          "maxDuration=8761h",
          "ttlAfterFinish=-1s",
          "ttlAfterFinish=8761h",
          "slots=tpu",
          "after=[cnn]",
          "after=[0]",
          "constraints=['a b']",
          "constraints=['']",
          "env={DP_RANK: x}",
          "env={'A=B': x}",
          "env={D: " + std::string(131070, 'x') + "}",
          "name=" + std::string(64, 'a'),
          "train.model={}",
          "train.data={dir: /d, std: [1, 0]}",
          "train.data={dir: /d, classes: 16777217}",
          "train.data={dir: /d, validation: 1}",
          "train.data={dir: /d, prefetchThreads: 257}",
          "train.data={dir: /d, augment: {crop: {}}}",
          "train.data={kind: cifar10}",
          "train.data={kind: arrays, arrays: {train: {inputs: /x, labels: /y}}}",
          "train.data={kind: arrays, validation: 0.1, arrays: {train: {inputs: /x}}}",
          "train.data={kind: csv, train: [/a], validation: 0.1}",
          "train.data={kind: csv, train: [/a], csv: {labels: x}}",
          "train.data={kind: imageFolder, dir: /d}",
          "train.data={kind: imageFolder, dir: /d, size: [8193, 1]}",
          "train.data={kind: synthetic, synthetic: {shape: [9], samples: 9}}",
          "train.data={kind: video, dir: /d}",
          "train.data={}"};
}

TEST(JobCheckConformanceTest, TheFirstBadValueOfEachFieldPassesNeither) {
  for (const std::string& change : FirstBadValues()) {
    const Verdicts verdicts = Check({change});
    EXPECT_TRUE(absl::IsInvalidArgument(verdicts.client)) << change.substr(0, 80);
    EXPECT_TRUE(absl::IsInvalidArgument(verdicts.server)) << change.substr(0, 80);
    EXPECT_THAT(std::string(verdicts.client.message()),
                EndsWith(absl::StrCat(": ", verdicts.server.message())));
  }
}

// A message has no other zero than that of a field which is not there.
TEST(JobCheckConformanceTest, AZeroThatAFileGivesIsWrongAndInAMessageNotGiven) {
  for (const std::string change : {"train.epochs=0", "train.globalBatchSize=0", "ranks=0"}) {
    const Verdicts verdicts = Check({change});
    EXPECT_TRUE(absl::IsInvalidArgument(verdicts.client)) << change;
    EXPECT_TRUE(verdicts.server.ok()) << change << verdicts.server;
  }
}

TEST(JobCheckConformanceTest, WhatAnElasticTrainingNeedsIsTheSameForBoth) {
  const std::string saves = "train.checkpoint={dir: /c, every: 1h}", nodes = "train.nodes=1:4";
  const std::vector<std::pair<std::vector<std::string>, bool>> jobs{
      {{nodes, saves, "growAfter=1s"}, true},     {{nodes, saves, "growAfter=8760h"}, true},
      {{nodes, saves, "growAfter=8761h"}, false}, {{nodes, "growAfter=1h"}, false},
      {{saves, "growAfter=1h"}, false},           {{nodes, "train.globalBatchSize=4"}, true},
      {{nodes, "train.globalBatchSize=3"}, false}};
  for (const auto& [changes, good] : jobs) {
    const Verdicts verdicts = Check(changes);
    EXPECT_EQ(verdicts.client.ok(), good) << absl::StrJoin(changes, ", ") << verdicts.client;
    EXPECT_EQ(verdicts.server.ok(), good) << absl::StrJoin(changes, ", ") << verdicts.server;
  }
}

}  // namespace
}  // namespace dp
