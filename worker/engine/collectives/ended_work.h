#pragma once

#include <utility>

#include "absl/status/status.h"
#include "worker/engine/collectives/group.h"

namespace dp::engine {

// An operation that had already ended when it was returned.
class EndedWork final : public Work {
 public:
  explicit EndedWork(absl::Status status) : status_(std::move(status)) {}

  absl::Status Wait() override { return status_; }
  bool done() const override { return true; }
  WorkTimes times() const override { return {absl::InfinitePast(), absl::InfinitePast()}; }

 private:
  const absl::Status status_;
};

}  // namespace dp::engine
