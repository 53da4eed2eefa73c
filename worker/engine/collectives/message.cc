#include "worker/engine/collectives/message.h"

#include "absl/strings/str_cat.h"

namespace dp::engine {

std::string NameOf(const Message& message) {
  return absl::StrCat(message.sends ? "send to" : "recv from", " rank ", message.peer, ", tag ",
                      message.tag);
}

std::string ContentsOf(DataType type, uint64_t bytes) {
  return absl::StrCat(bytes / SizeOf(type), " ", NameOf(type));
}

}  // namespace dp::engine
