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
    {1, "dp.v1.TrainSpec.accumulate"},
    {1, "dp.v1.TrainSpec.batch_size_per_rank"},
    {1, "dp.v1.TrainSpec.steps_per_epoch"},
    {1, "dp.v1.TrainSpec.groups"},
    {1, "dp.v1.TrainSpec.ema"},
};

std::string TextOf(const Message& message, const FieldDescriptor& field) {
  const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field.is_repeated();
  return text ? message.GetReflection()->GetString(message, &field) : "";
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
      level = std::max(level, later.level);
    }
    level = std::max(level, LevelWithin(message, *field));
  }
  return level;
}

}  // namespace

absl::Span<const LaterField> LaterFields() { return kLaterFields; }

int TrainerLevelFor(const v1::TrainSpec& train) { return LevelOf(train); }

}  // namespace dp
