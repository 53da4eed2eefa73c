#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "dp/spawn.h"

// Which failure of a spawned rank caused the others, and how it reads. Pure.

namespace dp::library {

// An exception that a rank's function threw.
struct ThrownText {
  std::string text;
  // An error that peers may have caused: one went away, did not arrive, or served the store.
  bool blames_peers = false;
  // By the host's monotonic clock.
  int64_t at_ns = 0;
};

// How a rank ended. Without exit code and signal, nobody knows.
struct RankEnd {
  int rank = 0;
  int pid = 0;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::optional<ThrownText> thrown;
};

bool IsFailure(const RankEnd& end);

// The failure that explains the others; null if there is none. Failures that blame no peer come
// first. Among equals, a death without a word comes before an exception, and an earlier exception
// before a later one.
const RankEnd* RootCause(absl::Span<const RankEnd> ends);

distributed::SpawnError SpawnErrorOf(const RankEnd& end);

}  // namespace dp::library
