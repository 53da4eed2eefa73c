#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/id.h"
#include "worker/trainer/gpu_card.h"

namespace dp::trainer {

// The environment that the daemon gives a rank (docs/worker.md).
struct Environment {
  std::string coordinator;  // host:port
  std::string credentials;  // DP_CREDENTIALS, a directory; empty: calls in plain text
  JobId job;
  Generation generation;
  int rank = 0;
  int world_size = 0;
  std::string worker;          // the name of the rank's daemon
  std::string address;         // where peers reach this host
  std::string gloo_interface;  // GLOO_SOCKET_IFNAME; empty: the interface that has `address`
  std::string metrics_file;    // empty: no metrics
  bool on_gpu = false;         // DP_DEVICE: compute on the first visible GPU
  GpuCard card;                // the GPU's model and memory; RunTrainer reads them from the driver
  std::string no_gpu_because;  // DP_NO_GPU_BECAUSE: why the rank leaves its slot's GPU unused

  // The device that the rank computes on: "cpu", or the GPU's model.
  std::string device() const { return on_gpu ? card.name() : "cpu"; }
};

// Reads everything except the card. `lookup` is getenv or a test's table. Errors: InvalidArgument
// names the variable that is missing or invalid, and its value.
absl::StatusOr<Environment> ReadEnvironment(
    const std::function<const char*(const char* name)>& lookup);

}  // namespace dp::trainer
