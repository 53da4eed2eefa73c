#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/model/layer_spec.h"
#include "dp/v1/job_spec.pb.h"
#include "worker/engine/data/array_dataset.h"
#include "worker/engine/data/augmented_dataset.h"
#include "worker/engine/data/folder_dataset.h"
#include "worker/engine/data/synthetic_dataset.h"
#include "worker/engine/data/token_dataset.h"
#include "worker/engine/device/device.h"
#include "worker/engine/nn/adamw.h"
#include "worker/engine/nn/learning_rate.h"
#include "worker/engine/nn/outer_step.h"
#include "worker/engine/nn/sgd.h"
#include "worker/trainer/model/early_stop.h"
#include "worker/trainer/model/parameter_groups.h"

namespace dp::trainer {

// A checkpoint on record that a training may start from.
struct ResumePoint {
  std::string path;
  std::string sha256;  // the manifest's hash
};

// Where and how often checkpoints are made.
struct CheckpointPlan {
  std::string dir;          // empty: none are made
  int64_t every_steps = 0;  // 0: by time
  absl::Duration every = absl::InfiniteDuration();
  int keep = 2;
  std::optional<WatchedMetric> best;  // of the checkpoint that is kept beside the latest
};

// Initial weights from a file in safetensors format, as PyTorch programs write them.
struct InitialWeights {
  std::string path;                // empty: all weights are drawn from the seed
  std::vector<std::string> drawn;  // patterns of names, as a shell's, of those drawn all the same
};

// The samples, and what is done with them.
struct DataPlan {
  std::variant<engine::ArrayDatasetOptions, engine::FolderDatasetOptions,
               engine::SyntheticDatasetOptions, engine::TokenDatasetOptions>
      source;
  double validation = 0;  // share of the training set that takes the place of a test set; 0: none
  std::optional<engine::AugmentOptions> augment;
  int prefetch_threads = 1;
  int classes = 0;  // as the job gives them; 0: the labels decide
};

// Ranks train by themselves, and meet after every round of steps.
struct LocalSgdPlan {
  int64_t sync_every = 1;  // steps of a round
  engine::OuterOptions outer;
};

// A training whose optimizer runs in the coordinator: strategy ps.
struct TablePlan {
  enum class Mode { kSync, kAsync, kBounded };
  Mode mode = Mode::kSync;
  int max_staleness = 4;        // of kBounded
  int64_t publish_every = 100;  // steps
};

// A library of the user's that the ranks have loaded.
struct PluginFile {
  std::string library;  // its path
  std::string sha256;   // of the file, in hex
};

// A train job's settings, with all defaults filled in (docs/job-file.md lists them).
struct TrainingPlan {
  uint64_t seed = 0;
  int epochs = 1;
  int64_t steps_max = 0;  // 0: no limit
  int global_batch_size = 128;
  int accumulate = 1;           // parts of a rank's share of a step
  int64_t steps_per_epoch = 0;  // 0: a pass over the data
  bool shuffle = true;
  bool drop_last = false;
  DataPlan data;
  std::vector<model::LayerSpec> layers;
  std::vector<PluginFile> plugins;  // LoadPlugins fills it in; each library once
  engine::Loss loss = engine::CrossEntropyLoss();
  engine::Precision precision = engine::Precision::kFloat32;
  bool deterministic = true;
  std::variant<engine::SgdOptions, engine::AdamWOptions> optimizer;
  engine::LearningRateSchedule schedule;
  double clip_norm = 0;  // 0: gradients are not clipped
  std::vector<ParameterGroup> groups;
  double average_decay = 0;               // 0: no average of the weights is kept
  bool average_evaluates = true;          // evaluations and the final weights take it
  int replicas = 1;                       // devices of a rank, with a replica of the model each
  std::optional<LocalSgdPlan> local_sgd;  // none: gradients are averaged in each step
  std::optional<TablePlan> table;         // none: ranks run the optimizer
  std::string backend = "auto";
  int threads = 1;
  int64_t bucket_bytes_max = 25 << 20;
  int evaluate_every = 1;         // epochs; 0: never
  bool confusion_matrix = false;  // in each evaluation
  std::optional<EarlyStopPlan> early_stop;
  absl::Duration detect_within = absl::Seconds(30);
  std::string trace_file;
  std::string weights_file;
  bool weights_of_best = false;  // the file gets the weights of the best checkpoint
  bool publish_weights = true;   // the coordinator keeps the final weights
  CheckpointPlan checkpoint;
  InitialWeights init;
  std::vector<ResumePoint> resume;  // checkpoints of an earlier job, best first
};

// The length of a text sample; 0 if samples are images.
int64_t TokensPerSample(const TrainingPlan& plan);

// The optimizer's name in a job file: "sgd", "adamw" or "adam".
std::string OptimizerName(const TrainingPlan& plan);
// The learning rate of the optimizer, before the schedule's factor.
double LearningRate(const TrainingPlan& plan);
// The schedule in words, such as "100 warmupSteps, then cosine to 0.1"; "constant" if the rate does
// not change.
std::string NameOf(const engine::LearningRateSchedule& schedule);

// The name that train.precision uses.
std::string NameOf(engine::Precision precision);

// Errors: InvalidArgument names the field. Shapes are checked later, against the data, and plug-ins
// are loaded later.
absl::StatusOr<TrainingPlan> PlanTraining(const v1::JobSpec& spec);

}  // namespace dp::trainer
