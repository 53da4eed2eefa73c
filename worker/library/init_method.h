#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dp/distributed.h"

namespace dp::library {

// Where the ranks of a group meet, and this process' place among them.
struct Meeting {
  enum class Where { kStore, kFile, kTcp };
  Where where = Where::kStore;
  int rank = 0;
  int world_size = 1;
  std::string path;  // with kFile
  std::string host;  // with kTcp, as port
  uint16_t port = 0;
  // Rank 0 does not serve the store, because a launcher does.
  bool served = false;
  // Precedes the keys of this attempt: a launcher's store outlives the processes that it restarts.
  std::string attempt;
};

// The value of an environment variable.
using Variables = std::function<std::optional<std::string>(absl::string_view name)>;
Variables VariablesOfProcess();

// For errors: "the environment variable A", or "the environment variables A, B".
std::string VariableNames(const std::vector<absl::string_view>& names);
// For errors about a text that gives no number of at most `max`: "no number" or "out of range,
// ...".
std::string WhyNoNumber(absl::string_view text, uint64_t max);

// Reads the options and, with env:// and dp://, the environment. Pure but for `variables`.
// Errors: InvalidArgument names the option or each variable, with what to set.
absl::StatusOr<Meeting> ReadMeeting(const distributed::InitOptions& options,
                                    const Variables& variables);

}  // namespace dp::library
