#include "proto/job/trainer_level.h"

#include <algorithm>
#include <vector>

namespace dp {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr LaterField kLaterFields[] = {
    {1, "dp.v1.TrainSpec.schedule"},
    {1, "dp.v1.OptimizerSpec.adam"},
    {1, "dp.v1.TrainSpec.clip_norm"},
    {1, "dp.v1.TrainSpec.accumulate", "", 1},
    {1, "dp.v1.TrainSpec.batch_size_per_rank"},
    {1, "dp.v1.TrainSpec.steps_per_epoch"},
    {1, "dp.v1.TrainSpec.groups"},
    {1, "dp.v1.TrainSpec.ema"},
    {1, "dp.v1.StrategySpec.ps"},
    {1, "dp.v1.TrainSpec.init"},
    {1, "dp.v1.MetricsSpec.confusion_matrix"},
    {1, "dp.v1.TrainSpec.early_stop"},
    {1, "dp.v1.CheckpointSpec.best"},
    {1, "dp.v1.OutputSpec.best"},
    {1, "dp.v1.StrategySpec.dp"},
    {1, "dp.v1.StrategySpec.mp"},
    {1, "dp.v1.StrategySpec.local_sgd"},
    {1, "dp.v1.LayerSpec.device"},
    {1, "dp.v1.CrossEntropyLossSpec.label_smoothing"},
    {1, "dp.v1.CrossEntropyLossSpec.ignore_index"},
    {1, "dp.v1.CrossEntropyLossSpec.class_weights"},
    {1, "dp.v1.LossSpec.mse"},
    {1, "dp.v1.LossSpec.l1"},
    {1, "dp.v1.LossSpec.bce"},
    {1, "dp.v1.LossSpec.norm"},
    {1, "dp.v1.DataSpec.kind", "cifar10"},
    {1, "dp.v1.DataSpec.kind", "cifar100"},
    {1, "dp.v1.DataSpec.kind", "arrays"},
    {1, "dp.v1.DataSpec.kind", "csv"},
    {1, "dp.v1.DataSpec.kind", "imageFolder"},
    {1, "dp.v1.DataSpec.kind", "synthetic"},
    {1, "dp.v1.DataSpec.mean", "", 1},
    {1, "dp.v1.DataSpec.std", "", 1},
    {1, "dp.v1.DataSpec.classes"},
    {1, "dp.v1.DataSpec.validation"},
    {1, "dp.v1.DataSpec.augment"},
    {1, "dp.v1.DataSpec.bpe"},
    {1, "dp.v1.ModelSpec.preset", "resnet18"},
    {1, "dp.v1.ModelSpec.preset", "resnet34"},
    {1, "dp.v1.ModelSpec.preset", "resnet50"},
    {1, "dp.v1.ModelSpec.preset", "resnet18-cifar"},
    {1, "dp.v1.ModelSpec.preset", "resnet34-cifar"},
    {1, "dp.v1.ModelSpec.preset", "resnet50-cifar"},
    {1, "dp.v1.ModelSpec.preset", "gpt2-355m"},
    {1, "dp.v1.ModelSpec.preset", "gpt2-774m"},
    {1, "dp.v1.ModelSpec.preset", "gpt2-1558m"},
    {1, "dp.v1.ModelSpec.plugin"},
    {1, "dp.v1.LayerSpec.plugin"},
    {1, "dp.v1.LayerSpec.input"},
    {1, "dp.v1.LayerSpec.conv1d"},
    {1, "dp.v1.LayerSpec.avg_pool2d"},
    {1, "dp.v1.LayerSpec.adaptive_avg_pool2d"},
    {1, "dp.v1.LayerSpec.batch_norm"},
    {1, "dp.v1.BatchNormSpec.sync"},
    {1, "dp.v1.LayerSpec.rms_norm"},
    {1, "dp.v1.LayerSpec.silu"},
    {1, "dp.v1.LayerSpec.tanh"},
    {1, "dp.v1.LayerSpec.sigmoid"},
    {1, "dp.v1.LayerSpec.softmax"},
    {1, "dp.v1.LayerSpec.attention"},
    {1, "dp.v1.Conv2dSpec.groups", "", 1},
    {1, "dp.v1.Conv2dSpec.dilation", "", 1},
    {1, "dp.v1.Conv2dSpec.init_std"},
    {1, "dp.v1.MaxPool2dSpec.padding"},
    {1, "dp.v1.GeluSpec.approximate", "none"},
};

std::string TextOf(const Message& message, const FieldDescriptor& field) {
  const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field.is_repeated();
  return text ? message.GetReflection()->GetString(message, &field) : "";
}

// The value of a whole number, or the count of a list's elements.
int64_t NumberOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(message, &field);
  const bool number = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  return number ? reflection.GetInt32(message, &field) : 0;
}

int LevelOf(const Message& message);

// The highest level in the messages that `field` holds; 0 if it holds none.
int LevelWithin(const Message& message, const FieldDescriptor& field) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return 0;
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) return LevelOf(reflection.GetMessage(message, &field));
  int level = 0;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    level = std::max(level, LevelOf(reflection.GetRepeatedMessage(message, &field, i)));
  }
  return level;
}

int LevelOf(const Message& message) {
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  int level = 0;
  for (const FieldDescriptor* field : set) {
    for (const LaterField& later : kLaterFields) {
      if (later.field != field->full_name()) continue;
      if (!later.value.empty() && later.value != TextOf(message, *field)) continue;
      if (later.above != 0 && NumberOf(message, *field) <= later.above) continue;
      level = std::max(level, later.level);
    }
    level = std::max(level, LevelWithin(message, *field));
  }
  return level;
}

// Conditions that are not one field with a value.

bool LeavesOutputsOpen(const v1::ModelSpec& model) {
  if (model.layers().empty()) return false;
  const v1::LayerSpec& last = model.layers(model.layers_size() - 1);
  return last.has_linear() && last.linear().out() == 0;
}

bool ComputesInBfloat16OnCpus(const v1::TrainSpec& train) {
  return train.precision() == "bf16" && train.device() == "cpu";
}

}  // namespace

absl::Span<const LaterField> LaterFields() { return kLaterFields; }

int TrainerLevelFor(const v1::TrainSpec& train) {
  const int level = LevelOf(train);
  return LeavesOutputsOpen(train.model()) || ComputesInBfloat16OnCpus(train) ? std::max(level, 1)
                                                                             : level;
}

}  // namespace dp
