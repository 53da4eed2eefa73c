#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "client/connection.h"
#include "client/pause.h"
#include "dp/v1/parameters.pb.h"

namespace dp::client {

// Names a set of parameters: that of a job, or one with a name.
struct ParameterSet {
  uint64_t job = 0;       // 0: a named set
  std::string name = {};  // empty: a job's set
};

// A tensor to push, borrowed.
struct TensorView {
  std::string name;
  std::string type;  // as safetensors names it: "F32"
  std::vector<int64_t> shape;
  absl::string_view data;  // row by row, little-endian
};

// A version that was pulled, and checked.
struct PulledParameters {
  v1::ParameterVersion version;  // with tensors
  std::string data;              // of all tensors, one after the other, in this order

  // The data of version.tensors(index).
  absl::string_view DataOf(int index) const;
};

// Makes the request that for the page behind `page`. Returns false if there is none.
bool AskForNext(const v1::ListParametersResponse& page, v1::ListParametersRequest& request);

// The sets of parameters that the coordinator keeps (proto/dp/v1/parameters.proto). Blocking calls,
// each retried as RetryLoop does while the coordinator cannot be reached. Checks all data that it
// gets. Connection and pause outlive it. Thread-safe.
class Parameters {
 public:
  struct PushOptions {
    int64_t step = 0;                                  // of the training; 0: unknown
    uint64_t generation = 0;                           // of the rank that pushes
    int rank = 0;                                      // likewise
    std::map<std::string, std::string> metadata = {};  // texts to keep with the tensors
  };
  struct PullOptions {
    uint64_t version = 0;  // 0: the latest
    uint64_t since = 0;    // waits for a version above this
    absl::Duration timeout = absl::ZeroDuration();
  };

  Parameters(Connection& connection, Pause& pause, const Clock& clock = Clock::Steady());

  // Adds a version with these tensors to the set. Returns it without tensors, once it is durable.
  // Errors: those of Parameters.Push.
  absl::StatusOr<v1::ParameterVersion> Push(const ParameterSet& set,
                                            absl::Span<const TensorView> tensors,
                                            const PushOptions& options);
  absl::StatusOr<v1::ParameterVersion> Push(const ParameterSet& set,
                                            absl::Span<const TensorView> tensors) {
    return Push(set, tensors, {});
  }
  // Errors: those of Parameters.Pull; DataLoss what came does not match its checksum.
  absl::StatusOr<PulledParameters> Pull(const ParameterSet& set, const PullOptions& options);
  absl::StatusOr<PulledParameters> Pull(const ParameterSet& set) { return Pull(set, {}); }
  // The latest version of each set that the caller may see. Errors: those of Parameters.List.
  absl::StatusOr<std::vector<v1::ParameterVersion>> List();
  // All versions of a set, newest first.
  absl::StatusOr<std::vector<v1::ParameterVersion>> Versions(const ParameterSet& set);
  // With the names and shapes of the tensors; version 0 is the latest.
  absl::StatusOr<v1::ParameterVersion> Describe(const ParameterSet& set, uint64_t version);
  // Version 0: the whole set. Returns the bytes that are free again; 0 if the answer was lost.
  absl::StatusOr<uint64_t> Remove(const ParameterSet& set, uint64_t version);

 private:
  template <typename Attempt>
  auto Retried(absl::Duration deadline, absl::Duration attempt_in, Attempt attempt);
  absl::StatusOr<std::vector<v1::ParameterVersion>> ListOf(v1::ListParametersRequest request);

  Connection& connection_;
  Pause& pause_;
  const Clock& clock_;
};

}  // namespace dp::client
