#include "proto/job/job_check.h"

#include "absl/strings/str_cat.h"
#include "proto/convert/time.h"
#include "proto/job/job_spec.h"
#include "proto/job/testing/parsed_job.h"

namespace dp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLayers[] = R"(apiVersion: dp/v1
kind: Job
name: layers
train:
  data: {dir: /data}
  model:
    layers:
      - conv2d: {out: 4, kernel: 3}
      - maxPool2d: {kernel: 2}
      - flatten: {}
      - {name: head, linear: {out: 10}}
  optimizer: {sgd: {learningRate: 0.1}}
)";

constexpr char kText[] = R"(apiVersion: dp/v1
kind: Job
name: gpt
train:
  data: {kind: text, train: [/data/a.txt, /data/b.txt], context: 64}
  model: {preset: gpt}
  optimizer: {adamw: {learningRate: 0.001}}
)";

TEST(JobDefaultsTest, AMinimalJobIsFilledIn) {
  const v1::JobSpec spec = Parsed(kMinimal).spec;
  EXPECT_EQ(spec.ranks(), 1);
  EXPECT_EQ(spec.threads_per_rank(), 1);
  EXPECT_EQ(FromProto(spec.grace()), absl::Seconds(30));
  EXPECT_EQ(FromProto(spec.detect_within()), absl::Seconds(30));
  const v1::TrainSpec& train = spec.train();
  EXPECT_EQ(train.epochs(), 1);
  EXPECT_EQ(train.global_batch_size(), 128);
  EXPECT_EQ(train.evaluate_every(), 1);
  EXPECT_EQ(train.backend(), "auto");
  EXPECT_EQ(train.device(), "auto");
  EXPECT_EQ(train.bucket_cap_mb(), 25);
  EXPECT_THAT(train.data().std(), ElementsAre(1));
  EXPECT_TRUE(train.data().shuffle());
}

TEST(JobDefaultsTest, LaterLayersGetTheirDefaults) {
  const std::string layers =
      "[{conv2d: {out: 8, kernel: 3}}, {batchNorm: {}}, {name: a, gelu: {}}, {avgPool2d: {kernel: "
      "2}}, {adaptiveAvgPool2d: {rows: 2}}, {flatten: {}}, {rmsNorm: {}}, {linear: {}}]";
  const v1::ModelSpec model =
      Parsed(kLayers, {"train.model.layers=" + layers}).spec.train().model();
  EXPECT_EQ(model.layers(0).conv2d().groups(), 1);
  EXPECT_EQ(model.layers(0).conv2d().dilation(), 1);
  EXPECT_EQ(model.layers(1).batch_norm().epsilon(), 1e-5);
  EXPECT_EQ(model.layers(1).batch_norm().momentum(), 0.1);
  EXPECT_EQ(model.layers(2).gelu().approximate(), "tanh");
  EXPECT_EQ(model.layers(3).avg_pool2d().stride(), 2);
  EXPECT_EQ(model.layers(4).adaptive_avg_pool2d().rows(), 2);
  EXPECT_EQ(model.layers(4).adaptive_avg_pool2d().columns(), 1);
  EXPECT_EQ(model.layers(4).name(), "adaptive_avg_pool2d4");
  EXPECT_EQ(model.layers(6).rms_norm().epsilon(), 1e-6);
  EXPECT_EQ(CheckJob(Parsed(kLayers, {"train.model.layers=" + layers}), Image28), absl::OkStatus());
}

TEST(JobDefaultsTest, LayersGetNamesStridesAndBiases) {
  const v1::ModelSpec model = Parsed(kLayers).spec.train().model();
  EXPECT_EQ(model.layers(0).name(), "conv2d0");
  EXPECT_EQ(model.layers(0).conv2d().stride(), 1);
  EXPECT_TRUE(model.layers(0).conv2d().bias());
  EXPECT_EQ(model.layers(1).max_pool2d().stride(), 2);
  EXPECT_EQ(model.layers(3).name(), "head");
  EXPECT_TRUE(model.layers(3).linear().bias());
}

TEST(JobDefaultsTest, WhatWasGivenStays) {
  const v1::JobSpec spec = Parsed(kMinimal, {"train.evaluateEvery=0", "train.data.shuffle=false",
                                             "train.deterministic=false", "grace=0s"})
                               .spec;
  EXPECT_FALSE(spec.train().deterministic());
  EXPECT_EQ(spec.train().evaluate_every(), 0);
  EXPECT_FALSE(spec.train().data().shuffle());
  EXPECT_EQ(FromProto(spec.grace()), absl::ZeroDuration());
}

TEST(JobCheckTest, GoodJobsPass) {
  EXPECT_EQ(CheckJob(Parsed(kMinimal), Image28), absl::OkStatus());
  EXPECT_EQ(CheckJob(Parsed(kLayers), Image28), absl::OkStatus());
}

TEST(JobCheckTest, AValueOutOfRangeIsNamedWithWhatIsAllowed) {
  EXPECT_EQ(ErrorSetting("ranks=-2"), "--set ranks: ranks is -2; expected 1 to 10000");
  EXPECT_THAT(ErrorSetting("ranks=0"), HasSubstr("ranks is 0; expected 1 to"));
  EXPECT_THAT(ErrorSetting("threadsPerRank=-1"), HasSubstr("threadsPerRank is -1; expected 1 to"));
  EXPECT_THAT(ErrorSetting("grace=-1s"), HasSubstr("grace is -1s; expected 0s to 1h"));
  EXPECT_THAT(ErrorSetting("grace=2h"), HasSubstr("grace is 2h; expected 0s to 1h"));
  EXPECT_THAT(ErrorSetting("detectWithin=48h"), HasSubstr("is 48h; expected 1s to 24h"));
  EXPECT_THAT(ErrorSetting("train.bucketCapMb=2e6"), HasSubstr("more than 0, at most 1048576"));
  EXPECT_THAT(ErrorSetting("detectWithin=0s"), HasSubstr("detectWithin is 0; expected 1s to 24h"));
  EXPECT_THAT(ErrorSetting("train.epochs=0"), HasSubstr("train.epochs is 0; expected 1 to"));
  EXPECT_THAT(ErrorSetting("train.maxSteps=-1"), HasSubstr("train.maxSteps is -1; expected 0 or"));
  EXPECT_THAT(ErrorSetting("train.globalBatchSize=0"), HasSubstr("is 0; expected 1 or more"));
  EXPECT_THAT(ErrorSetting("train.evaluateEvery=-1"), HasSubstr("is -1; expected 0 or more"));
  EXPECT_THAT(ErrorSetting("train.bucketCapMb=0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(ErrorSetting("train.data.std=0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(ErrorSetting("train.backend=mpi"),
              HasSubstr("train.backend is \"mpi\"; expected auto, gloo, hierarchical, shm"));
  EXPECT_THAT(ErrorSetting("train.precision=fp8"),
              HasSubstr("train.precision is \"fp8\"; expected float32, tf32, bf16"));
}

TEST(JobCheckTest, ALossComparesWithWhatTheDataHas) {
  EXPECT_EQ(
      CheckJob(Parsed(kMinimal, {"train.loss={crossEntropy: {labelSmoothing: 0.1}}"}), Image28),
      absl::OkStatus());
  EXPECT_THAT(ErrorSetting("train.loss={crossEntropy: {labelSmoothing: 1}}"),
              HasSubstr("labelSmoothing is 1; expected at least 0 and below 1"));
  EXPECT_THAT(ErrorSetting("train.loss={}"), HasSubstr("train.loss is empty"));
  EXPECT_THAT(ErrorSetting("train.loss={mse: {}}"),
              HasSubstr("train.loss compares with targets, and train.data has labels"));
  const std::string table =
      "train.data={kind: csv, train: [/a.csv], validation: 0.1, csv: {targets: [x]}}";
  const auto of_table = [&](const std::string& loss) {
    return std::string(CheckJob(Parsed(kLayers, {table, "train.loss=" + loss}), Image28).message());
  };
  EXPECT_EQ(of_table("{mse: {}}"), "");
  EXPECT_THAT(of_table("{crossEntropy: {}}"),
              HasSubstr("compares with labels, and train.data has targets; use mse, l1 or bce"));
  // The norm takes outputs of any number.
  EXPECT_EQ(
      CheckJob(Parsed(kLayers, {"train.loss={norm: {}}", "train.model.layers[3].linear.out=5"}),
               Image28),
      absl::OkStatus());
}

TEST(JobCheckTest, LabelsWeighAsTheirClasses) {
  const std::string loss = "train.loss.crossEntropy.";
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {loss + "ignoreIndex=255",
                                       loss + "classWeights=[1, 2, 0, 1, 1, 1, 1, 1, 1, 0.5]"})),
            absl::OkStatus());
  EXPECT_THAT(ErrorSetting(loss + "ignoreIndex=-100"), HasSubstr("is -100; expected 0 or more"));
  EXPECT_THAT(ErrorSetting(loss + "classWeights=[1, 2]"),
              HasSubstr("has 2 numbers, and the last layer 'linear5' gives 10 values"));
  EXPECT_THAT(ErrorSetting(loss + "classWeights=[1, -2]"),
              HasSubstr("classWeights[1] is -2; expected 0 or more"));
  EXPECT_THAT(ErrorSetting(loss + "classWeights=[0, 0]"), HasSubstr("are all 0"));
  // The largest label of the data set is no class, so nine outputs suffice.
  const std::string nine = "train.model={layers: [{flatten: {}}, {linear: {out: 9}}]}";
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {nine, loss + "ignoreIndex=9"})), absl::OkStatus());
  EXPECT_NE(CheckJob(Parsed(kMinimal, {nine, loss + "ignoreIndex=8"})), absl::OkStatus());
}

TEST(JobCheckTest, ADeviceWithoutAFasterWayTakesEitherDeterminism) {
  EXPECT_TRUE(Parsed(kMinimal).spec.train().deterministic());
  for (const std::string value : {"true", "false"}) {
    for (const std::string device : {"cpu", "cuda", "auto"}) {
      const auto job = Parsed(kMinimal, {"train.deterministic=" + value, "train.device=" + device});
      EXPECT_EQ(CheckJob(job, Image28), absl::OkStatus()) << value << " " << device;
    }
  }
}

TEST(JobCheckTest, WhatOnlyGpusComputeWithIsForThemAlone) {
  const auto device = [](const std::vector<std::string>& overrides) {
    return Parsed(kMinimal, overrides).spec.train().device();
  };
  EXPECT_EQ(device({}), "auto");
  EXPECT_EQ(device({"train.precision=float32"}), "auto");
  EXPECT_EQ(device({"train.precision=bf16"}), "cuda");
  EXPECT_EQ(device({"train.precision=tf32", "train.device=auto"}), "cuda");
  EXPECT_EQ(device({"train.precision=bf16", "train.device=cpu"}), "cpu");
}

TEST(JobCheckTest, WhereToTrainIsCheckedWithWhatItNeeds) {
  EXPECT_THAT(ErrorSetting("train.backend=nccl"),
              HasSubstr("leave it out, as NCCL is taken where ranks compute on GPUs"));
  EXPECT_THAT(ErrorSetting("train.device=gpu"),
              HasSubstr("train.device is \"gpu\"; expected auto, cpu, cuda"));
  const auto error = [](const std::vector<std::string>& overrides) {
    return std::string(CheckJob(Parsed(kMinimal, overrides), Image28).message());
  };
  EXPECT_THAT(error({"train.device=cuda", "slots=cpu"}),
              HasSubstr("slots is \"cpu\", and train.device cuda needs GPUs"));
  for (const std::string backend : {"gloo", "shm", "hierarchical"})
    EXPECT_THAT(
        error({"train.device=cuda", "train.backend=" + backend}),
        HasSubstr("train.backend is \"" + backend + "\", which does not reach GPUs' memory"));
  EXPECT_EQ(error({"train.device=cpu", "train.precision=bf16"}), "");
  EXPECT_THAT(error({"slots=cpu", "train.precision=bf16"}),
              HasSubstr("slots is \"cpu\", and train.precision bf16 needs GPUs"));
  EXPECT_EQ(error({"slots=gpu", "train.precision=bf16"}), "");
  EXPECT_THAT(error({"train.device=cpu", "train.precision=tf32"}),
              HasSubstr("train.precision is \"tf32\", which only GPUs compute with"));
  for (const std::string device : {"auto", "cpu", "cuda"}) {
    EXPECT_EQ(error({"train.device=" + device, "slots=gpu"}), "");
  }
}

TEST(JobCheckTest, TheBatchMayBeGivenPerRank) {
  const auto batch = [](const std::vector<std::string>& overrides) {
    const client::JobFile job = Parsed(kMinimal, overrides);
    EXPECT_EQ(CheckJob(job), absl::OkStatus());
    return GlobalBatchSize(job.spec);
  };
  EXPECT_EQ(batch({}), 128);
  EXPECT_EQ(batch({"train.batchSizePerRank=8", "ranks=3"}), 24);
  EXPECT_EQ(batch({"train.batchSizePerRank=8", "train.nodes=2", "train.nprocPerNode=2"}), 32);
  EXPECT_EQ(batch({"train.batchSizePerRank=8", "train.globalBatchSize=0"}), 8);
  const auto error = [](const std::vector<std::string>& overrides) {
    return std::string(CheckJob(Parsed(kMinimal, overrides)).message());
  };
  EXPECT_THAT(error({"train.batchSizePerRank=-8"}),
              HasSubstr("train.batchSizePerRank is -8; expected 1 or more"));
  EXPECT_THAT(error({"train.batchSizePerRank=8", "train.globalBatchSize=16"}),
              HasSubstr("train.batchSizePerRank excludes train.globalBatchSize; keep one"));
  EXPECT_THAT(error({"train.batchSizePerRank=8", "train.nodes=1:4"}),
              HasSubstr("give train.globalBatchSize instead"));
  EXPECT_THAT(error({"train.batchSizePerRank=2000000000", "ranks=2"}),
              HasSubstr("gives a step of 4000000000 samples; at most 2147483647 are allowed"));
}

TEST(JobCheckTest, AccumulationAndEpochsAreChecked) {
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"train.accumulate=4", "train.stepsPerEpoch=10"})),
            absl::OkStatus());
  EXPECT_THAT(ErrorSetting("train.stepsPerEpoch=-1"), HasSubstr("is -1; expected 0 to 2147483647"));
  EXPECT_THAT(ErrorSetting("train.accumulate=0"), HasSubstr("is 0; expected 1 or more"));
  EXPECT_THAT(ErrorSetting("train.accumulate=129"),
              HasSubstr("train.accumulate is 129, and some rank takes only 128 samples of a step; "
                        "lower it, or raise train.globalBatchSize"));
}

TEST(JobCheckTest, OptimizerValuesAreChecked) {
  const std::string sgd = "train.optimizer.sgd.";
  EXPECT_THAT(ErrorSetting(sgd + "learningRate=-0.1"), HasSubstr("is -0.1; expected more than 0"));
  EXPECT_THAT(ErrorSetting(sgd + "learningRate=0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(ErrorSetting(sgd + "momentum=1"), HasSubstr("expected at least 0 and below 1"));
  EXPECT_THAT(ErrorSetting(sgd + "weightDecay=-1"), HasSubstr("is -1; expected 0 or more"));
  EXPECT_THAT(ErrorSetting(sgd + "nesterov=true"), HasSubstr("is true without momentum"));
  EXPECT_THAT(ErrorSetting("train.optimizer.sgd={}"),
              HasSubstr("learningRate is missing; give one, as learningRate: 0.05"));
  EXPECT_THAT(ErrorSetting("train.optimizer={}"), HasSubstr("train.optimizer.sgd is missing"));
}

TEST(JobCheckTest, ALanguageModelIsFilledInAndChecked) {
  const v1::TrainSpec train = Parsed(kText).spec.train();
  EXPECT_EQ(train.data().vocabulary(), 256);
  EXPECT_EQ(train.optimizer().adamw().beta2(), 0.999);
  EXPECT_EQ(train.optimizer().adamw().weight_decay(), 0.01);
  EXPECT_EQ(train.optimizer().adamw().decay(), "matrices");
  EXPECT_EQ(Parsed(kText, {"train.data.kind=tokens"}).spec.train().data().vocabulary(), 50257);
  EXPECT_EQ(CheckJob(Parsed(kText), Image28), absl::OkStatus());
  const v1::TrainSpec plain = Parsed(kText, {"train.optimizer.adamw.beta1=0"}).spec.train();
  EXPECT_EQ(plain.optimizer().adamw().beta1(), 0);
}

TEST(JobCheckTest, ValuesOfTextsAreChecked) {
  const auto error = [](const std::string& override) { return ErrorSetting(override, kText); };
  EXPECT_THAT(
      error("train.data.kind=audio"),
      HasSubstr(
          "expected images, cifar10, cifar100, arrays, csv, imageFolder, synthetic, text, tokens"));
  EXPECT_THAT(error("train.data.context=0"), HasSubstr("context is 0; expected 1 to 65536"));
  EXPECT_THAT(error("train.data.vocabulary=70000"), HasSubstr("is 70000; expected 1 to 65536"));
  EXPECT_THAT(error("train.data.train=[]"), HasSubstr("give a list of files to train on"));
  EXPECT_THAT(error("train.data.test=[a.txt]"), HasSubstr("test[0] is \"a.txt\"; expected an abs"));
  EXPECT_THAT(error("train.data.dir=/data"),
              HasSubstr("does not go with kind: text; leave it out"));
  EXPECT_THAT(error("train.data={kind: text, train: [/a]}"), HasSubstr("context is missing"));
  EXPECT_THAT(ErrorSetting("train.data.context=8"), HasSubstr("does not go with kind: images"));
  EXPECT_EQ(CheckJob(Parsed(kText, {"train.data.mean=0"}), Image28), absl::OkStatus());
}

TEST(JobCheckTest, ALanguageModelMustFitItsTokens) {
  EXPECT_THAT(ErrorSetting("train.model={layers: [{name: out, linear: {out: 9}}]}", kText),
              HasSubstr("the first layer 'out' (linear) gets tokens; it must be an embedding"));
  EXPECT_THAT(ErrorSetting("train.model.preset=cnn", kText), HasSubstr("'conv2d0'"));
  EXPECT_THAT(ErrorSetting("train.model.preset=gpt"), HasSubstr("'wte' (embedding): needs tokens"));
  EXPECT_THAT(ErrorSetting("train.model={layers: [{name: e, embedding: {features: 8}}]}"),
              HasSubstr("layer 'e' (embedding): needs tokens, but"));
  const std::string layers =
      "train.model={layers: [{name: e, embedding: {features: 8}}, {positions: {initStd: 0.02}}, "
      "{layerNorm: {}}, {linear: {out: 24, initStd: 0.02}}, {causalAttention: {heads: 2}}, "
      "{gelu: {}}, {add: {layer: e}}, {tiedLinear: {embedding: e}}]}";
  EXPECT_EQ(CheckJob(Parsed(kText, {layers}), Image28), absl::OkStatus());
}

TEST(JobCheckTest, AdamWValuesAreChecked) {
  const std::string adamw = "train.optimizer.adamw.";
  const auto error = [&](const std::string& value) { return ErrorSetting(adamw + value, kText); };
  EXPECT_THAT(error("learningRate=0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(error("beta1=1"), HasSubstr("beta1 is 1; expected at least 0 and below 1"));
  EXPECT_THAT(error("beta2=-1"), HasSubstr("beta2 is -1; expected at least 0 and below 1"));
  EXPECT_THAT(error("epsilon=0"), HasSubstr("is 0; expected more than 0"));
  EXPECT_THAT(error("weightDecay=-1"), HasSubstr("is -1; expected 0 or more"));
  EXPECT_THAT(error("decay=biases"), HasSubstr("expected matrices, all"));
  EXPECT_THAT(ErrorSetting("train.optimizer={adamw: {}}", kText),
              HasSubstr("train.optimizer.adamw.learningRate is missing; give one"));
}

TEST(JobCheckTest, NamesFollowTheirRule) {
  for (const std::string name : {"Upper", "-dash", "dash-", "under_score", "ä"})
    EXPECT_THAT(ErrorSetting("name=" + name), HasSubstr("name is \"" + name + "\"; expected 1 to"));
  EXPECT_THAT(ErrorSetting("name=" + std::string(64, 'a')), HasSubstr("expected 1 to 63"));
  EXPECT_THAT(ErrorSetting("name=\"\""), HasSubstr("name is missing"));
}

TEST(JobCheckTest, VariablesThatCannotBeSetAreErrors) {
  for (const char* name : {"A=B", "", "1A", "A B", "A%%"})
    EXPECT_THAT(ErrorSetting(absl::StrCat("env={'", name, "': x}")),
                HasSubstr(absl::StrCat("env has a variable \"", name, "\"; a name consists of")));
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"env={_A.b-2: x}"}), Image28), absl::OkStatus());
  EXPECT_THAT(ErrorSetting("env={A: \"x\\0y\"}"), HasSubstr("env.A has a zero byte"));
  EXPECT_THAT(ErrorSetting("env={DP_RANK: 3}"), HasSubstr("env.DP_RANK is set by dp itself"));
}

TEST(JobCheckTest, AVariableThatNoProgramCanBeGivenIsNamedWithItsSize) {
  EXPECT_EQ(CheckJob(Parsed(kMinimal, {"env={BIG: " + std::string(131067, 'x') + "}"}), Image28),
            absl::OkStatus());
  EXPECT_EQ(ErrorSetting("env={BIG: " + std::string(200000, 'x') + "}"),
            "--set env: env.BIG takes 200004 bytes with its name; a variable may take 131071, so "
            "put it in a file and give its path");
}

TEST(JobCheckTest, PathsAreAbsolute) {
  EXPECT_EQ(ErrorSetting("train.data.dir=data"),
            "--set train.data.dir: train.data.dir is \"data\"; expected an absolute path, as ranks "
            "start in other directories than dpctl");
  EXPECT_THAT(ErrorSetting("train.trace=./t"),
              HasSubstr("train.trace is \"./t\"; expected an abs"));
  EXPECT_THAT(ErrorSetting("train.init.weights=w"),
              HasSubstr("train.init.weights is \"w\"; expected an abs"));
  EXPECT_THAT(ErrorSetting("train.init.drawn=[fc.*]"),
              HasSubstr("train.init.weights is missing, the file of the weights"));
  EXPECT_THAT(ErrorSetting("train.output.weights=w"),
              HasSubstr("weights is \"w\"; expected an abs"));
}

TEST(JobCheckTest, NamesOfLayersArePlain) {
  EXPECT_EQ(ErrorSetting("train.model.layers[3].name=\"a\\nb\"", kLayers),
            "--set train.model.layers[3].name: layer 3 has the name \"a\\nb\"; it may be up to "
            "128 letters, digits, '_', '-' and '.'");
  EXPECT_EQ(CheckJob(Parsed(kLayers, {"train.model.layers[3].name=features.out_1"}), Image28),
            absl::OkStatus());
}

TEST(JobCheckTest, APluginIsCheckedAsFarAsItIsKnown) {
  const auto error = [](const std::string& model) { return ErrorSetting("train.model=" + model); };
  for (const char* const good :
       {"{plugin: {library: /l.so, layer: a, config: {b: [1]}}}",
        "{layers: [{linear: {out: 3}}, {plugin: {library: /l.so}}]}",
        "{layers: [{plugin: {library: /l.so}}, {attention: {heads: 2}}]}"}) {
    EXPECT_EQ(CheckJob(Parsed(kMinimal, {std::string("train.model=") + good})), absl::OkStatus());
  }
  EXPECT_THAT(error("{plugin: {library: l.so}}"),
              HasSubstr("layer 'model' (plugin): library is 'l.so'; it must be the absolute path"));
  EXPECT_THAT(error("{layers: [{plugin: {}}]}"),
              HasSubstr("layer 'plugin0' (plugin): library is ''; it must be the absolute path"));
  EXPECT_THAT(error("{preset: mlp, plugin: {library: /l.so}}"),
              HasSubstr("train.model.plugin excludes train.model.preset and train.model.layers"));
  EXPECT_THAT(error("{plugin: {library: /l.so, config: {a b: 1}}}"),
              HasSubstr("train.model.plugin: config has the key 'a b'"));
  EXPECT_THAT(error("{layers: [{flatten: {}}, {plugin: {library: /l.so, config: {a b: 1}}}]}"),
              HasSubstr("train.model.layers[1]: config has the key 'a b'"));
}

TEST(JobCheckTest, WhatIsMissingIsNamed) {
  const absl::Status status = CheckJob(Parsed("{apiVersion: dp/v1, kind: Job, name: a}"), Image28);
  EXPECT_EQ(status.message(),
            "job.yaml: there is neither train nor command; a job needs a program to run");
  EXPECT_THAT(ErrorSetting("train.data={}"), HasSubstr("train.data.dir is missing"));
  EXPECT_THAT(ErrorSetting("train.model={}"), HasSubstr("give train.model.preset or"));
}

TEST(JobCheckTest, AModelIsEitherPresetOrLayers) {
  EXPECT_THAT(ErrorSetting("train.model.preset=mlp", kLayers), HasSubstr("keep one"));
  EXPECT_THAT(ErrorSetting("train.model.preset=vgg"),
              HasSubstr("train.model.preset: no preset 'vgg'; there are mlp, cnn, resnet18"));
  EXPECT_THAT(ErrorSetting("train.model.layers[1]={name: x}", kLayers),
              HasSubstr("--set train.model.layers[1]: train.model.layers[1]: a layer has no kind"));
}

TEST(JobCheckTest, LayersThatDoNotFitAreShownWithPlaceLayerAndBothShapes) {
  std::string text = kLayers;
  text.replace(text.find("{out: 10}"), 9, "{in: 100, out: 10}");
  EXPECT_EQ(CheckJob(Parsed(text), Image28).message(),
            "job.yaml:11:9: layer 'head' (linear): in is 100, but 'flatten2' gives 676 features");
  EXPECT_THAT(ErrorSetting("train.model.layers[3].linear.out=7", kLayers),
              HasSubstr("gives 7 features, but the data has 10 classes"));
}

TEST(JobCheckTest, ALayerThatAnOverrideHasChangedIsShownWithTheOverride) {
  const std::string what = ": layer 'head' (linear): in is 100, but 'flatten2' gives 676 features";
  EXPECT_EQ(ErrorSetting("train.model.layers[3].linear.in=100", kLayers),
            "--set train.model.layers[3].linear.in" + what);
  EXPECT_EQ(ErrorSetting("train.model.layers.3.linear.in=100", kLayers),
            "--set train.model.layers[3].linear.in" + what);
  EXPECT_EQ(
      ErrorSetting("train.model.layers[0].conv2d.kernel=28", kLayers),
      "job.yaml:9:9: layer 'max_pool2d1' (maxPool2d): kernel 2x2 with padding 0 does not fit, "
      "as 'conv2d0' gives 4x1x1");
}

TEST(JobCheckTest, ABatchMustHoldASampleForEachRank) {
  const absl::Status status =
      CheckJob(Parsed(kMinimal, {"ranks=4", "train.globalBatchSize=3"}), Image28);
  EXPECT_THAT(std::string(status.message()), HasSubstr("less than one sample for each of 4 ranks"));
}

TEST(JobCheckTest, FaultsOfLayersAreFoundWithoutTheData) {
  const auto error = [](const std::string& path, const std::string& value) {
    const std::string layer = "train.model.layers" + path;
    const auto unseen = [](const v1::DataSpec&) { return std::nullopt; };
    const absl::Status status = CheckJob(Parsed(kLayers, {layer + "=" + value}), unseen);
    std::string text(status.message());
    EXPECT_EQ(text.find("--set " + layer + ": "), 0u) << text;
    return text.substr(layer.size() + 8);
  };
  EXPECT_EQ(error("[3].linear.out", "-1"), "layer 'head' (linear): out is -1; it must be above 0");
  EXPECT_EQ(error("[3].linear.in", "-1"), "layer 'head' (linear): in is -1; it must be 0 or more");
  EXPECT_THAT(error("[0].conv2d", "{kernel: 3}"),
              HasSubstr("out is 0 or missing; it must be above 0"));
  EXPECT_THAT(error("[0].conv2d.stride", "-2"), HasSubstr("stride is -2; it must be above 0"));
  EXPECT_THAT(error("[0].conv2d.padding", "-1"), HasSubstr("padding is -1; it must be 0 or more"));
  EXPECT_THAT(error("[1].maxPool2d.kernel", "0"),
              HasSubstr("'max_pool2d1' (maxPool2d): kernel is 0 or missing; it must be above 0"));
  EXPECT_THAT(error("[1]", "{dropout: {p: 1.5}}"), HasSubstr("at least 0 and below 1"));
  EXPECT_THAT(error("[1]", "{gelu: {approximate: fast}}"),
              HasSubstr("gelu.approximate is 'fast'; it must be tanh or none"));
  EXPECT_THAT(error("[1]", "{batchNorm: {momentum: 0}}"),
              HasSubstr("momentum is 0; it must be above 0 and at most 1"));
  EXPECT_THAT(error("[1]", "{rmsNorm: {epsilon: 0}}"),
              HasSubstr("epsilon is 0; it must be above 0 and below 1"));
  EXPECT_EQ(error("[3].input", "nowhere"),
            "layer 'head' (linear): input is 'nowhere'; it must be the name of a layer above");
  EXPECT_EQ(error("[3].name", "conv2d0"), "two layers have the name 'conv2d0'; names must differ");
  EXPECT_THAT(error("[1]", "{add: {layer: head}}"), HasSubstr("must be the name of a layer above"));
  EXPECT_THAT(error("[2]", "{positions: {}}"),
              HasSubstr("(positions): needs tokens, but train.data.kind is images"));
}

TEST(JobCheckTest, AStrideOfZeroIsTheDefault) {
  EXPECT_EQ(CheckJob(Parsed(kLayers, {"train.model.layers[0].conv2d.stride=0"}), Image28),
            absl::OkStatus());
  EXPECT_EQ(CheckJob(Parsed(kLayers, {"train.model.layers[1].maxPool2d.stride=0"}), Image28),
            absl::OkStatus());
}

TEST(JobCheckTest, DataThatCannotBeSeenFromHereIsLeftToTheTrainer) {
  const auto unseen = [](const v1::DataSpec&) { return std::nullopt; };
  EXPECT_EQ(CheckJob(Parsed(kLayers, {"train.model.layers[3].linear.in=1"}), unseen),
            absl::OkStatus());
}

}  // namespace
}  // namespace dp
