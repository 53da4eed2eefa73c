#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "worker/engine/collectives/reduce/elements.h"

namespace dp::engine {

// A message from one rank to another, as one of the two calls it. Both must agree on tag, type and
// count.
struct Message {
  bool sends = true;  // else receives
  int peer = 0;
  int tag = 0;
  DataType type = DataType::kUint8;
  absl::Span<const uint8_t> sent;
  absl::Span<uint8_t> received;

  uint64_t bytes() const { return sends ? sent.size() : received.size(); }
};

// "send to rank 1, tag 7", for errors.
std::string NameOf(const Message& message);
// "10 float32".
std::string ContentsOf(DataType type, uint64_t bytes);

}  // namespace dp::engine
