#pragma once

#include <optional>
#include <string>

#include "google/protobuf/message.h"

namespace dp {

struct UnusableValue {
  std::string path;  // the field's name in a job file: "command.argv[1]"
  std::string why;   // its value and what is allowed: "is nan; expected a finite number"
};

// The first value in the message that no field can have, or nothing. Such are text that is not
// UTF-8, which no message can carry, numbers that are not finite, and durations whose parts
// contradict each other. Pure.
std::optional<UnusableValue> FindUnusable(const google::protobuf::Message& message);

}  // namespace dp
