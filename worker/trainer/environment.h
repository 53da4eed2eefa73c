#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "worker/trainer/gpu_card.h"

namespace dp::trainer {

// What the daemon tells a rank through its environment (docs/worker.md).
struct Environment {
  std::string coordinator;  // host:port
  JobId job;
  Generation generation;
  int rank = 0;
  int world_size = 0;
  std::string worker;          // its daemon's name
  std::string address;         // where peers reach this host
  std::string gloo_interface;  // GLOO_SOCKET_IFNAME; empty: the one that has `address`
  std::string metrics_file;    // empty: no metrics
  bool on_gpu = false;         // DP_DEVICE: computes on the first GPU that it is shown
  GpuCard card;                // which one that is; the trainer's main asks the driver
  std::string no_gpu_because;  // DP_NO_GPU_BECAUSE: a GPU of its slot is left alone for this reason

  // What it computes on: "cpu", or the GPU's model.
  std::string device() const { return on_gpu ? card.name() : "cpu"; }
};

// All but the card. `lookup` is getenv or a test's table. Errors: InvalidArgument names the
// variable that is missing or no number, and its value.
absl::StatusOr<Environment> ReadEnvironment(
    const std::function<const char*(const char* name)>& lookup);

}  // namespace dp::trainer
