#pragma once

#include <optional>
#include <string>

#include "google/protobuf/message.h"

namespace dp {

struct NotText {
  std::string path;   // the field's name in a job file: "command.argv[1]"
  std::string bytes;  // its value
};

// The first text in the message that is not UTF-8, which no message can carry. Nothing if all text
// is UTF-8. Pure.
std::optional<NotText> FindNotText(const google::protobuf::Message& message);

}  // namespace dp
