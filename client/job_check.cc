#include "client/job_check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dependency.h"
#include "base/labels.h"
#include "base/limits.h"
#include "base/model/shape_check.h"
#include "base/name.h"
#include "base/node_range.h"
#include "base/status.h"
#include "client/job_defaults.h"
#include "client/model_layers.h"
#include "proto/convert/elastic.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

// Every set of images has these many classes, as job files cannot say otherwise yet.
constexpr int kClasses = 10;

// Of a value in an error.
constexpr size_t kShownBytesMax = 80;

// One job under check: remembers the first thing that is wrong.
class Check {
 public:
  Check(const JobFile& job, const SampleShape& sample_shape)
      : spec_(job.spec), source_(job.source), sample_shape_(sample_shape) {}

  absl::Status Run() {
    CheckTop();
    CheckScheduling();
    for (const auto& [name, value] : SortedEnv()) CheckVariable(name, value);
    switch (spec_.program_case()) {
      case v1::JobSpec::kTrain:
        CheckTrain(spec_.train());
        if (first_.ok()) CheckModel(spec_.train());
        break;
      case v1::JobSpec::kCommand:
        CheckCommand(spec_.command());
        break;
      case v1::JobSpec::PROGRAM_NOT_SET:
        Fail("train", "there is neither train nor command; a job needs a program to run");
    }
    CheckShape();
    CheckGrowth();
    CheckRestart(spec_.restart());
    return first_;
  }

 private:
  void CheckTop() {
    if (spec_.name().empty()) Fail("name", "name is missing; give the job one");
    if (!IsName(spec_.name())) Fail("name", Wrong("name", Quoted(spec_.name()), kNameRule));
    Between("ranks", spec_.ranks(), 1, kRanksMax);
    Between("threadsPerRank", spec_.threads_per_rank(), 1, kThreadsPerRankMax);
    Between("memoryMibPerRank", spec_.memory_mib_per_rank(), 0, kMemoryMibPerRankMax);
    const absl::Duration grace = FromProto(spec_.grace());
    if (grace < absl::ZeroDuration() || grace > kGraceMax)
      Fail("grace", Wrong("grace", grace, absl::StrCat("0s to ", absl::FormatDuration(kGraceMax))));
    const absl::Duration detect = FromProto(spec_.detect_within());
    if (detect < kDetectWithinMin || detect > kDetectWithinMax)
      Fail("detectWithin", Wrong("detectWithin", detect,
                                 absl::StrCat(absl::FormatDuration(kDetectWithinMin), " to ",
                                              absl::FormatDuration(kDetectWithinMax))));
  }

  // When and where it runs.
  void CheckScheduling() {
    if (!IsName(spec_.queue())) Fail("queue", Wrong("queue", Quoted(spec_.queue()), kNameRule));
    Between("priority", spec_.priority(), -kPriorityMax, kPriorityMax);
    OneOf("slots", spec_.slots(), {"any", "gpu", "cpu"});
    if (spec_.has_max_duration()) {
      CheckDuration("maxDuration", spec_.max_duration(), kMaxDurationMin);
    }
    CheckDuration("ttlAfterFinish", spec_.ttl_after_finish(), absl::ZeroDuration());
    Between("after", spec_.after_size(), 0, kDependenciesMax);
    Between("constraints", spec_.constraints_size(), 0, kLabelsMax);
    for (int i = 0; i < spec_.after_size(); ++i)
      CheckEntry("after", i, ParseDependency(spec_.after(i)).status());
    for (int i = 0; i < spec_.constraints_size(); ++i)
      CheckEntry("constraints", i, ParseConstraint(spec_.constraints(i)).status());
  }

  void CheckDuration(const std::string& path, const google::protobuf::Duration& value,
                     absl::Duration min) {
    const absl::Duration duration = FromProto(value);
    if (duration >= min && duration <= kMaxDurationMax) return;
    Fail(path, Wrong(path, duration,
                     absl::StrCat(absl::FormatDuration(min), " to ",
                                  absl::FormatDuration(kMaxDurationMax))));
  }

  void CheckEntry(const std::string& list, int index, const absl::Status& status) {
    const std::string path = absl::StrCat(list, "[", index, "]");
    if (!status.ok()) Fail(path, absl::StrCat(path, " ", status.message()));
  }

  // Protobuf's maps have no order; errors should.
  std::map<std::string, std::string> SortedEnv() const {
    return {spec_.env().begin(), spec_.env().end()};
  }

  void CheckVariable(const std::string& name, const std::string& value) {
    const std::string path = absl::StrCat("env.", name);
    if (name.empty() || name.find_first_of(std::string("=\0", 2)) != std::string::npos)
      Fail(path,
           absl::StrCat("env has a variable \"", name, "\"; a name is not empty and has no '='"));
    if (value.find('\0') != std::string::npos)
      Fail(path, absl::StrCat("env.", name, " has a zero byte; a variable cannot"));
    const size_t bytes = name.size() + 1 + value.size();
    if (bytes > kArgumentBytesMax)
      Fail(path, absl::StrCat("env.", name.substr(0, kShownBytesMax), " takes ", bytes,
                              " bytes with its name; a variable may take ", kArgumentBytesMax,
                              ", so put it in a file and give its path"));
    if (absl::StartsWith(name, kReservedVariables))
      Fail(path, absl::StrCat("env.", name, " is set by dp itself; choose a name without ",
                              kReservedVariables));
  }

  void CheckDevice(const v1::TrainSpec& train) {
    OneOf("train.device", train.device(), {"auto", "cpu", "cuda"});
    if (train.device() != "cuda") return;
    if (spec_.slots() == "cpu")
      Fail("slots", "slots is \"cpu\", and train.device cuda needs GPUs; leave one of them out");
    if (train.backend() == "gloo")
      Fail("train.backend",
           "train.backend is \"gloo\", which does not reach GPUs' memory; with train.device cuda "
           "leave it out");
  }

  void CheckRestart(const v1::RestartSpec& restart) {
    Between("restart.maxRestarts", restart.max_restarts(), 0, kRestartsMax);
    Between("restart.infra", restart.infra(), 0, kRestartsMax);
    Between("restart.hang", restart.hang(), 0, kRestartsMax);
    Between("restart.oom", restart.oom(), 0, kRestartsMax);
    Between("restart.startup", restart.startup(), 0, kStartupRestartsMax);
    const absl::Duration window = FromProto(restart.window());
    if (window <= absl::ZeroDuration() || window > kRestartWindowMax)
      Fail("restart.window",
           Wrong("restart.window", window,
                 absl::StrCat("more than 0s, at most ", absl::FormatDuration(kRestartWindowMax))));
    CheckExitCodes("restart.neverRetryExitCodes", restart.never_retry_exit_codes());
    CheckExitCodes("restart.alwaysRetryExitCodes", restart.always_retry_exit_codes());
    if (spec_.has_command() && spec_.command().max_restarts() != restart.max_restarts())
      Fail("restart.maxRestarts",
           absl::StrCat("restart.maxRestarts is ", restart.max_restarts(),
                        ", but command.maxRestarts is ", spec_.command().max_restarts(),
                        "; they are the same, so give one of them"));
  }

  template <typename Codes>
  void CheckExitCodes(const std::string& path, const Codes& codes) {
    if (codes.size() > kExitCodesMax)
      Fail(path, absl::StrCat(path, " has ", codes.size(), " exit codes; there are only 255"));
    for (int i = 0; i < codes.size(); ++i)
      Between(absl::StrCat(path, "[", i, "]"), codes[i], 1, kExitCodeMax);
  }

  void CheckTrain(const v1::TrainSpec& train) {
    Between("train.epochs", train.epochs(), 1, std::numeric_limits<int>::max());
    AtLeast("train.maxSteps", train.max_steps(), 0);
    AtLeast("train.globalBatchSize", train.global_batch_size(), 1);
    const auto range = RanksOf(spec_);
    const int ranks = range ? range->max : spec_.ranks();
    if (train.global_batch_size() < ranks)
      Fail("train.globalBatchSize",
           absl::StrCat("train.globalBatchSize is ", train.global_batch_size(),
                        ", less than one sample for each of ", ranks, " ranks"));
    AtLeast("train.evaluateEvery", train.evaluate_every(), 0);
    if (!(train.bucket_cap_mb() > 0 && train.bucket_cap_mb() <= kBucketCapMbMax))
      Fail("train.bucketCapMb",
           Wrong("train.bucketCapMb", train.bucket_cap_mb(),
                 absl::StrCat("more than 0, at most ", static_cast<int64_t>(kBucketCapMbMax))));
    OneOf("train.backend", train.backend(), {"auto", "gloo"});
    if (!train.precision().empty())
      OneOf("train.precision", train.precision(), {"float32", "bf16"});
    CheckDevice(train);
    OneOf("train.onIsolation", train.on_isolation(), {"stop", "continue"});
    CheckData(train.data());
    Absolute("train.trace", train.trace());
    if (absl::EndsWith(train.output().weights(), "/"))
      Fail("train.output.weights",
           Wrong("train.output.weights", Quoted(train.output().weights()),
                 "a file's path, as /models/weights.safetensors, not a directory's"));
    Absolute("train.output.weights", train.output().weights());
    if (train.has_checkpoint()) CheckCheckpoint(train.checkpoint());
    for (const v1::ResumeFrom& from : train.resume().from())
      if (from.path().empty() || from.path().front() != '/')
        Fail("train.resume", Wrong("train.resume.from.path", absl::StrCat("\"", from.path(), "\""),
                                   "an absolute path; dpctl fills it in where --resume is given"));
    CheckOptimizer(train.optimizer());
  }

  void CheckCommand(const v1::CommandSpec& command) {
    if (!command.argv().empty() && command.argv(0).empty())
      Fail("command.argv", "the program's name, command.argv[0], is empty; give a program to run");
    if (command.argv().empty())
      Fail("command.argv", "command.argv is missing; give the program and its arguments");
    for (int i = 0; i < command.argv_size(); ++i)
      if (command.argv(i).size() > kArgumentBytesMax)
        Fail("command.argv", absl::StrCat("command.argv[", i, "] takes ", command.argv(i).size(),
                                          " bytes; an argument may take ", kArgumentBytesMax,
                                          ", so put it in a file and give its path"));
    Absolute("command.workingDir", command.working_dir());
    OneOf("command.contract", command.contract(),
          {"torchrun", "tensorflow", "jax", "mpi", "plain"});
    OneOf("command.store", command.store(), {"relay", "rank0", "direct"});
    OneOf("command.onIsolation", command.on_isolation(), {"stop", "continue"});
    Between("command.maxRestarts", command.max_restarts(), 0, kRestartsMax);
  }

  // Workers, and ranks on each.
  void CheckShape() {
    const std::string section = spec_.has_train() ? "train" : "command";
    const std::string nodes_path = section + ".nodes", each_path = section + ".nprocPerNode";
    const std::string& each = RanksPerNodeField(spec_);
    if (NodesField(spec_).empty() && each.empty()) return;
    const absl::Status nodes = ParseNodeRange(NodesField(spec_)).status();
    if (!nodes.ok()) Fail(nodes_path, absl::StrCat(nodes_path, " ", nodes.message()));
    if (each == "gpu" || each == "cpu" || each == "auto") return;
    int number = 0;
    if (!absl::SimpleAtoi(each, &number) || number < 1 || number > kRanksMax)
      Fail(each_path,
           Wrong(each_path, Quoted(each), absl::StrCat("1 to ", kRanksMax, ", gpu, cpu or auto")));
    const auto ranks = RanksOf(spec_);
    if (ranks && ranks->min != spec_.ranks())
      Fail("ranks", absl::StrCat("ranks is ", spec_.ranks(), ", but ", nodes_path, " and ",
                                 each_path, " make ", ranks->min, "; leave ranks out"));
  }

  void CheckGrowth() {
    const absl::Duration after = FromProto(spec_.grow_after());
    if (after == absl::ZeroDuration()) return;
    CheckDuration("growAfter", spec_.grow_after(), kMaxDurationMin);
    if (!IsElastic(spec_))
      Fail("growAfter",
           "growAfter is given, but the job is not elastic; give nodes a range, as 1:4");
    if (spec_.has_train() && !spec_.train().has_checkpoint())
      Fail("growAfter",
           "growAfter is given, but the training would begin anew; give it train.checkpoint");
  }

  void CheckCheckpoint(const v1::CheckpointSpec& checkpoint) {
    const std::string path = "train.checkpoint.";
    if (checkpoint.dir().empty())
      Fail(path + "dir", "train.checkpoint.dir is missing; give the directory of the checkpoints");
    Absolute(path + "dir", checkpoint.dir());
    AtLeast(path + "everySteps", checkpoint.every_steps(), 0);
    if ((checkpoint.every_steps() > 0) == checkpoint.has_every())
      Fail(path + "everySteps",
           absl::StrCat("train.checkpoint has ", checkpoint.has_every() ? "both" : "neither",
                        " everySteps and every; give one of them"));
    const absl::Duration every = FromProto(checkpoint.every());
    if (checkpoint.has_every() && (every < kCheckpointEveryMin || every > kCheckpointEveryMax))
      Fail(path + "every", Wrong(path + "every", every,
                                 absl::StrCat(absl::FormatDuration(kCheckpointEveryMin), " to ",
                                              absl::FormatDuration(kCheckpointEveryMax))));
    Between(path + "keep", checkpoint.keep(), 1, kCheckpointsKeptMax);
  }

  void CheckData(const v1::DataSpec& data) {
    OneOf("train.data.kind", data.kind(), {"images", "text", "tokens"});
    if (data.kind() != "images") return CheckText(data);
    if (data.dir().empty())
      Fail("train.data.dir", "train.data.dir is missing; give the directory of the IDX files");
    Absolute("train.data.dir", data.dir());
    Above("train.data.std", data.std(), 0);
    Refuse(data, "train", !data.train().empty());
    Refuse(data, "test", !data.test().empty());
    Refuse(data, "context", data.context() != 0);
    Refuse(data, "vocabulary", data.vocabulary() != 0);
  }

  void CheckText(const v1::DataSpec& data) {
    Refuse(data, "dir", !data.dir().empty());
    Refuse(data, "mean", data.mean() != 0);
    Refuse(data, "std", data.has_std());
    if (data.train().empty())
      Fail("train.data", "train.data.train is missing; give a list of files to train on");
    CheckFiles("train.data.train", data.train());
    CheckFiles("train.data.test", data.test());
    if (!source_.Given("train.data.context"))
      Fail("train.data", "train.data.context is missing; give the tokens of a sample, as 128");
    Between("train.data.context", data.context(), 1, kContextMax);
    Between("train.data.vocabulary", data.vocabulary(), 1, kVocabularyMax);
  }

  void CheckFiles(const std::string& list, const auto& paths) {
    for (int i = 0; i < paths.size(); ++i) {
      const std::string path = absl::StrCat(list, "[", i, "]");
      if (paths[i].empty()) Fail(path, absl::StrCat(path, " is empty; give the path of a file"));
      Absolute(path, paths[i]);
    }
  }

  // A field of data of another kind. Zeroes are no mistake: --dry-run shows them.
  void Refuse(const v1::DataSpec& data, const std::string& field, bool said) {
    const std::string path = "train.data." + field;
    if (said)
      Fail(path, absl::StrCat(path, " does not go with kind: ", data.kind(), "; leave it out"));
  }

  void CheckOptimizer(const v1::OptimizerSpec& optimizer) {
    if (optimizer.has_adamw()) return CheckAdamW(optimizer.adamw());
    if (!optimizer.has_sgd())
      Fail("train.optimizer",
           "train.optimizer.sgd is missing, and adamw too; give one, as sgd: {learningRate: 0.05}");
    const v1::SgdSpec& sgd = optimizer.sgd();
    const std::string path = "train.optimizer.sgd";
    CheckLearningRate(path, sgd.learning_rate(), "0.05");
    Share(path + ".momentum", sgd.momentum());
    AtLeast(path + ".weightDecay", sgd.weight_decay(), 0);
  }

  void CheckAdamW(const v1::AdamWSpec& adamw) {
    const std::string path = "train.optimizer.adamw";
    CheckLearningRate(path, adamw.learning_rate(), "0.001");
    Share(path + ".beta1", adamw.beta1());
    Share(path + ".beta2", adamw.beta2());
    Above(path + ".epsilon", adamw.epsilon(), 0);
    AtLeast(path + ".weightDecay", adamw.weight_decay(), 0);
    OneOf(path + ".decay", adamw.decay(), {"matrices", "all"});
  }

  void CheckLearningRate(const std::string& optimizer, double value, const std::string& example) {
    const std::string path = optimizer + ".learningRate";
    if (!source_.Given(path))
      Fail(optimizer, absl::StrCat(path, " is missing; give one, as learningRate: ", example));
    Above(path, value, 0);
  }

  void Share(const std::string& path, double value) {
    if (!(value >= 0 && value < 1)) Fail(path, Wrong(path, value, "at least 0 and below 1"));
  }

  void CheckModel(const v1::TrainSpec& train) {
    const v1::ModelSpec& model = train.model();
    const std::string path = "train.model";
    if (!model.preset().empty() && model.layers_size() > 0)
      return Fail(path + ".preset", "train.model.preset excludes train.model.layers; keep one");
    if (model.preset().empty() && model.layers_size() == 0)
      return Fail(path, "train.model is missing; give train.model.preset or train.model.layers");
    CheckLayerNames(model);
    const auto layers = ModelLayers(model);
    const bool preset = !model.preset().empty();
    if (!layers.ok())
      return Fail(path + (preset ? ".preset" : ".layers"),
                  absl::StrCat(path, preset ? ".preset: " : ".", layers.status().message()));
    const v1::DataSpec& data = train.data();
    absl::Status fits;
    if (data.kind() != "images")
      fits = model::CheckLanguageModel(*layers, data.context(), data.vocabulary()).status();
    else if (const std::optional<model::Shape> shape = sample_shape_(data.dir()))
      fits = model::CheckClassifier(*layers, *shape, kClasses).status();
    if (!fits.ok()) Fail(PlaceOfMisfit(model, fits), fits.message());
  }

  void CheckLayerNames(const v1::ModelSpec& model) {
    for (int i = 0; i < model.layers_size(); ++i) {
      const std::string& name = model.layers(i).name();
      if (name.empty() || model::IsLayerName(name)) continue;
      const std::string path = absl::StrCat("train.model.layers[", i, "].name");
      Fail(path, Wrong(path, absl::StrCat("\"", absl::Utf8SafeCEscape(name), "\""),
                       model::kLayerNameRule));
    }
  }

  // Points at the layer that the message names, where it is one of the file's.
  static std::string PlaceOfMisfit(const v1::ModelSpec& model, const absl::Status& misfit) {
    for (int i = 0; i < model.layers_size(); ++i)
      if (absl::StrContains(misfit.message(), absl::StrCat("layer '", model.layers(i).name(), "'")))
        return absl::StrCat("train.model.layers[", i, "]");
    return "train.model";
  }

  // The ranks start on other hosts, in directories of their own. Empty is none.
  void Absolute(const std::string& path, const std::string& value) {
    if (!value.empty() && value.front() != '/')
      Fail(path, Wrong(path, absl::StrCat("\"", value, "\""),
                       "an absolute path, as ranks start in other directories than dpctl"));
  }
  void Between(const std::string& path, int64_t value, int64_t min, int64_t max) {
    if (value < min || value > max) Fail(path, Wrong(path, value, absl::StrCat(min, " to ", max)));
  }
  template <typename Number>
  void AtLeast(const std::string& path, Number value, Number min) {
    if (!(value >= min)) Fail(path, Wrong(path, value, absl::StrCat(min, " or more")));
  }
  void AtLeast(const std::string& path, double value, int min) {
    AtLeast<double>(path, value, min);
  }
  void AtLeast(const std::string& path, int64_t value, int min) {
    AtLeast<int64_t>(path, value, min);
  }
  void Above(const std::string& path, double value, double bound) {
    if (!(value > bound)) Fail(path, Wrong(path, value, absl::StrCat("more than ", bound)));
  }
  void OneOf(const std::string& path, const std::string& value,
             const std::vector<std::string>& allowed) {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    Fail(path, Wrong(path, absl::StrCat("\"", value, "\""), absl::StrJoin(allowed, ", ")));
  }

  static std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }
  static std::string Wrong(const std::string& path, const absl::AlphaNum& value,
                           absl::string_view allowed) {
    return absl::StrCat(path, " is ", value, "; expected ", allowed);
  }
  static std::string Wrong(const std::string& path, absl::Duration value,
                           absl::string_view allowed) {
    return Wrong(path, absl::FormatDuration(value), allowed);
  }

  void Fail(const std::string& path, absl::string_view what) {
    if (first_.ok()) first_ = source_.Error(path, what);
  }

  const v1::JobSpec& spec_;
  const FieldSource& source_;
  const SampleShape& sample_shape_;
  absl::Status first_;
};

}  // namespace

absl::Status CheckJob(const JobFile& job, const SampleShape& sample_shape) {
  return Check(job, sample_shape).Run();
}

}  // namespace dp::client
