#pragma once

#include <optional>
#include <string>

#include "google/protobuf/message.h"

namespace dp::client {

struct NotText {
  std::string path;   // as a job file names the field: "command.argv[1]"
  std::string bytes;  // what is there
};

// The first text in the message that is not UTF-8, which no message can carry; nothing where there
// is none. Pure.
std::optional<NotText> FindNotText(const google::protobuf::Message& message);

}  // namespace dp::client
