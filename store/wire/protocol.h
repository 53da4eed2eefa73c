#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "store/wire/fields.h"

// The messages of PyTorch's TCPStore. See docs/tcpstore.md.

namespace dp::wire {

enum class Dialect {
  kA,  // PyTorch 1.9 to 2.0
  kB,  // 2.1
  kC,  // 2.2 and later; the only one that opens with a handshake
};

// The operation of a request, whatever its code in a dialect.
enum class Verb : uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kNumKeys,
  kWatchKey,
  kDeleteKey,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};
inline constexpr size_t kVerbs = 20;

struct Request {
  Verb verb = Verb::kSet;
  Fields fields;

  bool operator==(const Request&) const = default;
};

// The magic of the handshake: the number of a validate.
inline constexpr uint32_t kMagic = 0x3C85F7CE;

// One-byte answers.
inline constexpr int kReady = 0;
inline constexpr int kNotReady = 1;
inline constexpr int kStopWaiting = 0;
inline constexpr int kWaitCanceled = 1;
inline constexpr int kWatching = 3;

// The first byte of a notification: what happened to the watched key.
inline constexpr int kKeyUpdated = 0;
inline constexpr int kKeyCreated = 1;
inline constexpr int kKeyDeleted = 2;

absl::string_view NameOf(Verb verb);
// Nothing if the dialect has no such verb, or no such code.
std::optional<uint8_t> CodeOf(Verb verb, Dialect dialect);
std::optional<Verb> VerbOf(uint8_t code, Dialect dialect);
Shape RequestShape(Verb verb);
// Empty if there is no reply.
Shape ReplyShape(Verb verb);

// Appends the request; the dialect must have its verb.
void AppendRequest(Dialect dialect, const Request& request, std::string* out);

}  // namespace dp::wire
