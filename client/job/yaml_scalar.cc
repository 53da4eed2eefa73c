#include "client/job/yaml_scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "google/protobuf/duration.pb.h"
#include "proto/convert/time.h"

namespace dp::client {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// More of a wrong value helps nobody.
constexpr size_t kScalarBytesMax = 60;
// Longer than any run, and far from where arithmetic on times overflows.
constexpr absl::Duration kDurationMax = absl::Hours(24 * 365 * 100);

// yaml-cpp tags a quoted scalar "!" and a plain one "?".
bool Plain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

absl::Status Expected(const YAML::Node& node, absl::string_view type) {
  return absl::InvalidArgumentError(absl::StrCat("is ", Shown(node), "; expected ", type));
}

// JSON as protobuf writes it quotes 64-bit numbers, because JavaScript cannot hold them.
template <typename Int>
bool ParseInt(const YAML::Node& node, Int* value) {
  const bool may_be_quoted = sizeof(Int) == 8 && node.IsScalar();
  return (Plain(node) || may_be_quoted) && absl::SimpleAtoi(node.Scalar(), value);
}

// The range of a whole number, in words. The table has the fields that job_check.h limits further;
// other fields may take all values of their type.
template <typename Int>
std::string IntType(const FieldDescriptor& field) {
  struct Bounds {
    int64_t min, max;
  };
  static const std::map<std::string, Bounds> bounds = {
      {"dp.v1.JobSpec.priority", {-kPriorityMax, kPriorityMax}},
      {"dp.v1.JobSpec.ranks", {1, kRanksMax}},
      {"dp.v1.JobSpec.threads_per_rank", {0, kThreadsPerRankMax}},
      {"dp.v1.JobSpec.memory_mib_per_rank", {0, kMemoryMibPerRankMax}},
      {"dp.v1.TrainSpec.epochs", {1, std::numeric_limits<int32_t>::max()}},
      {"dp.v1.TrainSpec.max_steps", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.TrainSpec.global_batch_size", {1, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.TrainSpec.batch_size_per_rank", {0, std::numeric_limits<int32_t>::max()}},
      {"dp.v1.TrainSpec.steps_per_epoch", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.TrainSpec.accumulate", {1, std::numeric_limits<int32_t>::max()}},
      {"dp.v1.TrainSpec.evaluate_every", {0, std::numeric_limits<int32_t>::max()}},
      {"dp.v1.ScheduleSpec.warmup_steps", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.CosineDecaySpec.steps", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.LinearDecaySpec.steps", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.StepDecaySpec.every_epochs", {1, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.StepDecaySpec.every_steps", {1, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.MultiStepDecaySpec.at_epochs", {1, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.MultiStepDecaySpec.at_steps", {1, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.CheckpointSpec.every_steps", {0, std::numeric_limits<int64_t>::max()}},
      {"dp.v1.CheckpointSpec.keep", {1, kCheckpointsKeptMax}},
      {"dp.v1.CommandSpec.max_restarts", {0, kRestartsMax}},
      {"dp.v1.RestartSpec.max_restarts", {0, kRestartsMax}},
  };
  const auto found = bounds.find(std::string(field.full_name()));
  if (found == bounds.end())
    return absl::StrCat("a whole number from ", std::numeric_limits<Int>::min(), " to ",
                        std::numeric_limits<Int>::max());
  return absl::StrCat("a whole number from ", found->second.min, " to ",
                      std::min<int64_t>(found->second.max, std::numeric_limits<Int>::max()));
}

// STATE_UP of the enum pkg.State is written "up".
std::string ShortName(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(c);
  }
  absl::string_view name = value.name();
  absl::ConsumePrefix(&name, absl::StrCat(prefix, "_"));
  return absl::AsciiStrToLower(name);
}

const EnumValueDescriptor* FindEnum(const EnumDescriptor& type, absl::string_view name) {
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor* value = type.value(i);
    if (value->number() != 0 && ShortName(*value) == absl::AsciiStrToLower(name)) return value;
  }
  return nullptr;
}

std::string EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i)
    if (type.value(i)->number() != 0) names.push_back(ShortName(*type.value(i)));
  return absl::StrCat("one of ", absl::StrJoin(names, ", "));
}

// Sets one value, or adds it to a repeated field: reflection has a method for each.
#define DP_STORE(kind, value)                                           \
  (field.is_repeated() ? reflection.Add##kind(&message, &field, value)  \
                       : reflection.Set##kind(&message, &field, value), \
   absl::OkStatus())

}  // namespace

std::string Shown(const YAML::Node& node) {
  if (!node.IsDefined() || node.IsNull()) return "empty";
  if (node.IsSequence()) return "a list";
  if (node.IsMap()) return "a mapping";
  const std::string text = absl::Utf8SafeCEscape(node.Scalar().substr(0, kScalarBytesMax));
  double number = 0;
  const bool word = !Plain(node) || !absl::SimpleAtod(node.Scalar(), &number);
  return word ? absl::StrCat("\"", text, "\"") : text;
}

absl::Status SetScalar(const YAML::Node& node, const FieldDescriptor& field, Message& message) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      return ParseInt(node, &value) ? DP_STORE(Int32, value)
                                    : Expected(node, IntType<int32_t>(field));
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      return ParseInt(node, &value) ? DP_STORE(Int64, value)
                                    : Expected(node, IntType<int64_t>(field));
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      return ParseInt(node, &value) ? DP_STORE(UInt32, value)
                                    : Expected(node, IntType<uint32_t>(field));
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      return ParseInt(node, &value) ? DP_STORE(UInt64, value)
                                    : Expected(node, IntType<uint64_t>(field));
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value = 0;
      const bool number = Plain(node) && absl::SimpleAtod(node.Scalar(), &value);
      if (!number || !std::isfinite(value)) return Expected(node, "a number");
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) return DP_STORE(Double, value);
      return DP_STORE(Float, static_cast<float>(value));
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool yes = Plain(node) && node.Scalar() == "true";
      const bool no = Plain(node) && node.Scalar() == "false";
      return yes || no ? DP_STORE(Bool, yes) : Expected(node, "true or false");
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return node.IsScalar() ? DP_STORE(String, node.Scalar()) : Expected(node, "text");
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value =
          node.IsScalar() ? FindEnum(*field.enum_type(), node.Scalar()) : nullptr;
      return value != nullptr ? DP_STORE(Enum, value)
                              : Expected(node, EnumNames(*field.enum_type()));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return Expected(node, "a scalar");
}

#undef DP_STORE

bool IsDuration(const Message& message) {
  return message.GetDescriptor() == google::protobuf::Duration::descriptor();
}

absl::Status SetDuration(const YAML::Node& node, Message& message) {
  absl::Duration duration;
  const bool parsed = node.IsScalar() && absl::ParseDuration(node.Scalar(), &duration);
  if (!parsed || absl::AbsDuration(duration) > kDurationMax)
    return Expected(node, "a duration such as 10s, 5m or 1h30m");
  message.CopyFrom(ToProto(duration));
  return absl::OkStatus();
}

}  // namespace dp::client
