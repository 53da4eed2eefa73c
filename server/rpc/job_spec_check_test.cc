#include "server/rpc/job_spec_check.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/labels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Valid() {
  v1::JobSpec spec;
  spec.set_name("mnist");
  spec.mutable_train()->mutable_data()->set_dir("/data");
  spec.mutable_train()->mutable_model()->set_preset("mlp");
  spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  return spec;
}

// The error message for a valid spec after `change`.
std::string Refusal(const std::function<void(v1::JobSpec&)>& change) {
  v1::JobSpec spec = Valid();
  change(spec);
  const absl::Status status = CheckJobSpec(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(JobSpecCheckTest, DefaultsAreRecordedWithTheJob) {
  const auto checked = CheckJobSpec(Valid());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->name, "mnist");
  EXPECT_EQ(checked->ranks, 1);
  v1::JobSpec spec;
  ASSERT_TRUE(spec.ParseFromString(checked->payload));
  EXPECT_EQ(spec.api_version(), "dp/v1");
  EXPECT_EQ(spec.threads_per_rank(), 1);
  EXPECT_EQ(spec.grace().seconds(), 30);
  EXPECT_EQ(spec.detect_within().seconds(), 30);
  EXPECT_EQ(spec.train().epochs(), 1);
}

TEST(JobSpecCheckTest, WhatAClientHasSentIsKept) {
  v1::JobSpec spec = Valid();
  spec.mutable_train()->set_epochs(7);
  spec.mutable_train()->mutable_model()->clear_preset();
  v1::LayerSpec& pool = *spec.mutable_train()->mutable_model()->add_layers();
  pool.mutable_max_pool2d()->set_kernel(3);
  pool.mutable_max_pool2d()->set_stride(2);
  spec.mutable_train()->mutable_model()->add_layers()->mutable_max_pool2d()->set_kernel(4);
  v1::JobSpec recorded;
  ASSERT_TRUE(recorded.ParseFromString(CheckJobSpec(spec).value().payload));
  EXPECT_EQ(recorded.train().epochs(), 7);
  EXPECT_EQ(recorded.train().model().layers(0).max_pool2d().stride(), 2);
  EXPECT_EQ(recorded.train().model().layers(1).max_pool2d().stride(), 4);
}

TEST(JobSpecCheckTest, LayersAreRefusedWithoutTheirData) {
  const auto refusal = [](const std::function<void(v1::LayerSpec&)>& change) {
    return Refusal([&](v1::JobSpec& spec) {
      v1::ModelSpec& model = *spec.mutable_train()->mutable_model();
      model.clear_preset();
      model.add_layers()->mutable_flatten();
      change(*model.add_layers());
    });
  };
  EXPECT_EQ(refusal([](v1::LayerSpec& layer) { layer.mutable_linear()->set_out(-1); }),
            "layer 'linear1' (linear): out is -1; it must be above 0");
  EXPECT_EQ(refusal([](v1::LayerSpec& layer) { layer.mutable_dropout()->set_p(2); }),
            "layer 'dropout1' (dropout): p is 2; it must be at least 0 and below 1");
  EXPECT_EQ(refusal([](v1::LayerSpec& layer) {
              layer.set_name("flatten0");
              layer.mutable_relu();
            }),
            "two layers have the name 'flatten0'; names must differ");
}

TEST(JobSpecCheckTest, WhatDpctlResolvesMustBeResolved) {
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->set_nproc_per_node("gpu"); }),
            "train.nprocPerNode is \"gpu\"; expected a number, as dpctl puts in its place");
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) { spec.mutable_command()->add_argv("train"); }),
            "command.workingDir is missing; give an absolute path on the workers' hosts");
}

TEST(JobSpecCheckTest, APathThatEndsEarlyIsRefused) {
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) {
              spec.mutable_command()->add_argv("train");
              spec.mutable_command()->set_working_dir(std::string("/a\0b", 4));
            }),
            "command.workingDir has a zero byte; a path cannot");
}

TEST(JobSpecCheckTest, AStoreThatTheProgramServesNeedsNoPort) {
  const auto needs_port = [](const std::string& contract, const std::string& store, int ranks) {
    v1::JobSpec spec = Valid();
    spec.mutable_command()->add_argv("train");
    spec.mutable_command()->set_working_dir("/");
    spec.mutable_command()->set_contract(contract);
    spec.mutable_command()->set_store(store);
    spec.set_ranks(ranks);
    return CheckJobSpec(spec).value().store_port;
  };
  EXPECT_TRUE(needs_port("torchrun", "", 2));
  EXPECT_TRUE(needs_port("launch", "relay", 1));
  EXPECT_FALSE(needs_port("torchrun", "", 1));
  EXPECT_FALSE(needs_port("torchrun", "program", 2));
  EXPECT_FALSE(needs_port("plain", "relay", 2));
}

TEST(JobSpecCheckTest, NamesAreLabels) {
  for (const char* good : {"a", "a-b", "0", "m4x"}) {
    v1::JobSpec spec = Valid();
    spec.set_name(good);
    EXPECT_TRUE(CheckJobSpec(spec).ok()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string("a-"), std::string("A"), std::string("a b"),
        std::string("a/b"), std::string(64, 'a')}) {
    EXPECT_THAT(Refusal([&](v1::JobSpec& spec) { spec.set_name(bad); }), HasSubstr("name is"))
        << bad;
  }
}

TEST(JobSpecCheckTest, NumbersOutOfRangeAreRefusedByFieldAndValue) {
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) { spec.set_ranks(-1); }),
            "ranks is -1; expected 1 to 10000");
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.set_ranks(20000); }),
              HasSubstr("ranks is 20000"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.set_threads_per_rank(-2); }),
              HasSubstr("threadsPerRank is -2"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.mutable_grace()->set_seconds(-1); }),
              HasSubstr("grace is -1s"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->set_epochs(-1); }),
              HasSubstr("train.epochs is -1"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) {
                spec.mutable_train()->set_bucket_cap_mb(std::numeric_limits<double>::quiet_NaN());
              }),
              HasSubstr("train.bucketCapMb is nan"));
}

TEST(JobSpecCheckTest, NumbersThatAreNotFiniteAreRefused) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Refusal([&](v1::JobSpec& spec) {
              spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_learning_rate(infinity);
            }),
            "train.optimizer.sgd.learningRate is inf; expected a finite number");
  EXPECT_EQ(Refusal([&](v1::JobSpec& spec) {
              spec.mutable_train()->mutable_data()->add_mean(-infinity);
            }),
            "train.data.mean is -inf; expected a finite number");
}

TEST(JobSpecCheckTest, DurationsWhosePartsContradictAreRefused) {
  const auto refusal = [](int64_t seconds, int32_t nanos) {
    return Refusal([=](v1::JobSpec& spec) {
      spec.mutable_grace()->set_seconds(seconds);
      spec.mutable_grace()->set_nanos(nanos);
    });
  };
  EXPECT_EQ(refusal(10, 1'000'000'000),
            "grace has 10 seconds and 1000000000 nanos; expected a valid google.protobuf.Duration: "
            "at most 315576000000 seconds and 999999999 nanos, both of one sign");
  EXPECT_THAT(refusal(10, -1), HasSubstr("grace has 10 seconds and -1 nanos"));
  EXPECT_THAT(refusal(std::numeric_limits<int64_t>::min(), 0), HasSubstr("both of one sign"));
  EXPECT_THAT(refusal(0, std::numeric_limits<int32_t>::min()), HasSubstr("both of one sign"));
  EXPECT_THAT(refusal(-1, -5), HasSubstr("expected 0s to 1h"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) {
                spec.mutable_restart()->mutable_window()->set_nanos(2'000'000'000);
              }),
              HasSubstr("restart.window has 0 seconds"));
  v1::JobSpec spec = Valid();
  spec.mutable_grace()->set_nanos(999'999'999);
  EXPECT_TRUE(CheckJobSpec(spec).ok());
}

TEST(JobSpecCheckTest, WhoResumesSaysFromWhere) {
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->mutable_resume(); }),
            "train.resume.from is missing; leave train.resume out, and give --resume");
  EXPECT_THAT(Refusal([](v1::JobSpec& s) {
                s.mutable_train()->mutable_resume()->add_from()->set_path("/c/step-1");
              }),
              HasSubstr("train.resume.from.sha256 is missing"));
}

TEST(JobSpecCheckTest, ADeadlineThatABusyHostWouldMissIsRefused) {
  EXPECT_EQ(Refusal([](v1::JobSpec& spec) { spec.mutable_detect_within()->set_nanos(1); }),
            "detectWithin is 1ns; expected 1s to 24h");
}

TEST(JobSpecCheckTest, PathsThatDependOnADaemonsDirectoryAreRefused) {
  EXPECT_EQ(
      Refusal([](v1::JobSpec& spec) { spec.mutable_train()->mutable_data()->set_dir("d"); }),
      "train.data.dir is \"d\"; expected an absolute path, as ranks start in other directories "
      "than dpctl");
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) {
                spec.mutable_train()->mutable_output()->set_weights("out/w.safetensors");
              }),
              HasSubstr("train.output.weights is \"out/w.safetensors\""));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->set_trace("t.jsonl"); }),
              HasSubstr("train.trace is \"t.jsonl\""));
}

TEST(JobSpecCheckTest, AJobNeedsAProgramAModelAndData) {
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.clear_train(); }),
              HasSubstr("a job needs a program to run"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->clear_data(); }),
              HasSubstr("train.data.dir"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.mutable_train()->clear_model(); }),
              HasSubstr("train.model has no layers"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) {
                spec.mutable_train()->mutable_model()->add_layers()->mutable_relu();
              }),
              HasSubstr("train.model.preset excludes train.model.layers"));
}

TEST(JobSpecCheckTest, ATextNeedsFilesAndAContext) {
  const auto text = [](v1::JobSpec& spec) {
    v1::DataSpec data;
    data.set_kind("text");
    data.add_train("/data/a.txt");
    data.set_context(64);
    *spec.mutable_train()->mutable_data() = data;
    spec.mutable_train()->mutable_model()->set_preset("gpt");
    return spec.mutable_train()->mutable_data();
  };
  v1::JobSpec spec = Valid();
  text(spec);
  EXPECT_TRUE(CheckJobSpec(spec).ok());
  EXPECT_THAT(Refusal([&](v1::JobSpec& s) {
                text(s);
                s.mutable_train()->mutable_model()->set_preset("mlp");
              }),
              HasSubstr("gets tokens; it must be an embedding"));
  EXPECT_EQ(Refusal([&](v1::JobSpec& s) { text(s)->set_kind("audio"); }),
            "train.data.kind is \"audio\"; expected images, cifar10, cifar100, arrays, csv, "
            "imageFolder, synthetic, text, tokens");
  EXPECT_EQ(Refusal([&](v1::JobSpec& s) { text(s)->clear_train(); }),
            "train.data.train is missing; give a list of files to train on");
  EXPECT_EQ(Refusal([&](v1::JobSpec& s) { text(s)->add_test("b.txt"); }),
            "train.data.test[0] is \"b.txt\"; expected an absolute path, as ranks start in other "
            "directories than dpctl");
  EXPECT_EQ(Refusal([&](v1::JobSpec& s) { text(s)->set_context(0); }),
            "train.data.context is missing; give the tokens of a sample, as 128");
  EXPECT_THAT(Refusal([&](v1::JobSpec& s) { text(s)->set_vocabulary(70000); }),
              HasSubstr("train.data.vocabulary is 70000"));
}

TEST(JobSpecCheckTest, ATrainJobSaysWhetherItsRanksMayOrMustTrainOnGpus) {
  const auto checked = [](const std::string& device, const std::string& backend = "auto") {
    v1::JobSpec spec = Valid();
    spec.mutable_train()->set_device(device);
    spec.mutable_train()->set_backend(backend);
    return *CheckJobSpec(spec);
  };
  EXPECT_TRUE(checked("").gpu_training);
  EXPECT_EQ(checked("").scheduling.slots, core::SlotKind::kAny);
  EXPECT_FALSE(checked("cpu").gpu_training);
  EXPECT_FALSE(checked("auto", "gloo").gpu_training);
  EXPECT_FALSE(checked("auto", "shm").gpu_training);
  EXPECT_TRUE(checked("cuda").gpu_training);
  EXPECT_EQ(checked("cuda").scheduling.slots, core::SlotKind::kTrainingGpu);
  EXPECT_THAT(Refusal([](v1::JobSpec& s) { s.mutable_train()->set_device("tpu"); }),
              HasSubstr("train.device is \"tpu\"; expected auto, cpu, cuda"));
  EXPECT_THAT(Refusal([](v1::JobSpec& s) {
                s.mutable_train()->set_device("cuda");
                s.set_slots("cpu");
              }),
              HasSubstr("slots is \"cpu\", and train.device cuda needs GPUs"));
  EXPECT_THAT(Refusal([](v1::JobSpec& s) {
                s.mutable_train()->set_device("cuda");
                s.mutable_train()->set_backend("gloo");
              }),
              HasSubstr("train.backend is \"gloo\", which does not reach GPUs' memory"));
}

TEST(JobSpecCheckTest, BfloatAndTf32TrainOnGpusUnlessCpusAreAskedFor) {
  v1::JobSpec spec = Valid();
  for (const std::string precision : {"bf16", "tf32"}) {
    spec.mutable_train()->set_precision(precision);
    spec.mutable_train()->set_device("");
    EXPECT_EQ(CheckJobSpec(spec)->scheduling.slots, core::SlotKind::kTrainingGpu);
  }
  spec.mutable_train()->set_device("cpu");
  EXPECT_THAT(CheckJobSpec(spec).status().message(),
              HasSubstr("train.precision is \"tf32\", which only GPUs compute with"));
  spec.mutable_train()->set_precision("bf16");
  EXPECT_NE(CheckJobSpec(spec)->scheduling.slots, core::SlotKind::kTrainingGpu);
}

TEST(JobSpecCheckTest, WhenAndWhereAJobMayRunIsChecked) {
  v1::JobSpec spec = Valid();
  spec.set_slots("gpu");
  spec.add_after("any:7");
  spec.add_constraints("zone!=b");
  spec.mutable_max_duration()->set_seconds(60);
  const auto checked = CheckJobSpec(spec);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->scheduling.queue, "default");
  EXPECT_EQ(checked->scheduling.slots, core::SlotKind::kGpu);
  EXPECT_EQ(checked->scheduling.after, (std::vector<Dependency>{{JobId(7), false}}));
  EXPECT_EQ(checked->scheduling.max_duration, absl::Minutes(1));
  EXPECT_EQ(checked->scheduling.ttl_after_finish, absl::InfiniteDuration());
  EXPECT_EQ(Refusal([](v1::JobSpec& s) { s.add_after("cnn"); }),
            "after[0] is \"cnn\"; expected a job's number, as 7 or ok:7 (with success), or any:7");
  EXPECT_THAT(Refusal([](v1::JobSpec& s) { s.add_constraints("a b"); }),
              HasSubstr("constraints[0] is \"a b\""));
  EXPECT_THAT(Refusal([](v1::JobSpec& s) { s.set_slots("tpu"); }), HasSubstr("slots is \"tpu\""));
  EXPECT_THAT(Refusal([](v1::JobSpec& s) { s.set_queue("No"); }), HasSubstr("queue is \"No\""));
}

TEST(JobSpecCheckTest, ALimitOfMemoryAsksForWorkersThatCanSetIt) {
  v1::JobSpec spec = Valid();
  EXPECT_TRUE(CheckJobSpec(spec)->scheduling.constraints.empty());
  spec.set_memory_mib_per_rank(64);
  for (size_t i = 0; i < kLabelsMax; ++i) spec.add_constraints(absl::StrCat("label-", i));
  const auto checked = CheckJobSpec(spec);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->scheduling.constraints.back(), *ParseConstraint("!no-memory-limit"));
}

TEST(JobSpecCheckTest, SecretsAskForWorkersThatTakeThem) {
  v1::JobSpec spec = Valid();
  spec.add_secrets("HF_TOKEN");
  spec.set_memory_mib_per_rank(64);
  for (size_t i = 0; i < kLabelsMax; ++i) spec.add_constraints(absl::StrCat("label-", i));
  const auto checked = CheckJobSpec(spec);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->scheduling.constraints.back(), *ParseConstraint("takes-secrets"));
}

TEST(JobSpecCheckTest, FieldsThatEarlierTrainersDoNotKnowAskForLaterOnes) {
  v1::JobSpec spec = Valid();
  EXPECT_TRUE(CheckJobSpec(spec)->scheduling.constraints.empty());
  spec.mutable_train()->mutable_schedule()->set_warmup_steps(3);
  const auto checked = CheckJobSpec(spec);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->scheduling.constraints.back(), *ParseConstraint("trainer-level-1"));
}

TEST(JobSpecCheckTest, NamesOfSecretsAreChecked) {
  const auto refusal = [](const std::string& name) {
    return Refusal([&](v1::JobSpec& s) {
      (*s.mutable_env())["LEVEL"] = "3";
      s.add_secrets("HF_TOKEN");
      s.add_secrets(name);
    });
  };
  EXPECT_THAT(refusal("LEVEL"), HasSubstr("secrets[1] is LEVEL, which env sets too"));
  EXPECT_THAT(refusal("HF_TOKEN"), HasSubstr("secrets[1] is HF_TOKEN, which was named before"));
  EXPECT_THAT(refusal("DP_JOB"), HasSubstr("secrets[1] is DP_JOB, which dp sets itself"));
  EXPECT_THAT(refusal("A B"), HasSubstr("secrets[1] is \"A B\"; a name has up to 256 bytes"));
  EXPECT_THAT(refusal(std::string(257, 'A')), HasSubstr("a name has up to 256 bytes"));
  EXPECT_EQ(refusal("KEY=hf_abc"),
            "secrets[1] says more than a name; dpctl reads the value and sends it beside the job, "
            "never in it");
  EXPECT_THAT(Refusal([](v1::JobSpec& s) {
                for (int i = 0; i < 33; ++i) s.add_secrets(absl::StrCat("A", i));
              }),
              HasSubstr("secrets has 33 entries; at most 32 are allowed"));
}

TEST(JobSpecCheckTest, AnElasticTrainingThatSavesGrowsAfterTenMinutes) {
  v1::JobSpec spec = Valid();
  spec.mutable_train()->set_nodes("2:4");
  spec.mutable_train()->set_nproc_per_node("3");
  EXPECT_EQ(CheckJobSpec(spec)->scheduling.grow_after, absl::InfiniteDuration());
  spec.mutable_train()->mutable_checkpoint()->set_dir("/c");
  spec.mutable_train()->mutable_checkpoint()->set_every_steps(10);
  spec.set_preemptible(true);
  spec.mutable_grace()->set_seconds(40);
  const auto checked = CheckJobSpec(spec);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->ranks, 6);
  EXPECT_EQ(checked->ranks_max(), 12);
  EXPECT_EQ(checked->grace, absl::Seconds(40));
  EXPECT_TRUE(checked->saves);
  EXPECT_FALSE(checked->joins_by_running);
  EXPECT_TRUE(checked->scheduling.preemptible);
  EXPECT_EQ(checked->scheduling.grow_after, absl::Minutes(10));
  spec.mutable_grow_after();  // 0s
  EXPECT_EQ(CheckJobSpec(spec)->scheduling.grow_after, absl::InfiniteDuration());
}

TEST(JobSpecCheckTest, AnotherVersionOrKindIsRefused) {
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.set_api_version("dp/v2"); }),
              HasSubstr("apiVersion is \"dp/v2\"; expected dp/v1"));
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { spec.set_kind("Pod"); }),
              HasSubstr("kind is \"Pod\""));
}

TEST(JobSpecCheckTest, EnvironmentThatNoProcessCanHaveIsRefused) {
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) { (*spec.mutable_env())["A=B"] = "x"; }),
              HasSubstr("env has a variable \"A=B\""));
  EXPECT_THAT(
      Refusal([](v1::JobSpec& spec) { (*spec.mutable_env())["A"] = std::string("a\0b", 3); }),
      HasSubstr("env.A"));
  EXPECT_THAT(
      Refusal([](v1::JobSpec& spec) { (*spec.mutable_env())["A"] = std::string(200'000, 'x'); }),
      HasSubstr("takes 200002 bytes with its name; a variable may take 131071"));
}

TEST(JobSpecCheckTest, ASpecThatIsTooLargeIsRefused) {
  EXPECT_THAT(Refusal([](v1::JobSpec& spec) {
                for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"})
                  (*spec.mutable_env())[name] = std::string(100'000, 'x');
              }),
              HasSubstr("at most 1048576"));
}

}  // namespace
}  // namespace dp::server
