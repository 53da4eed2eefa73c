#include "worker/trainer/environment.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::trainer {
namespace {

using Lookup = std::function<const char*(const char* name)>;

absl::StatusOr<std::string> Text(const Lookup& lookup, const char* name) {
  const char* value = lookup(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is not set: dp-trainer is started by dp-worker; submit a job with dpctl instead"));
}

template <typename Number>
absl::StatusOr<Number> Count(const Lookup& lookup, const char* name) {
  DP_ASSIGN_OR_RETURN(const std::string text, Text(lookup, name));
  Number number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat(name, " is '", text, "', not a whole number"));
}

std::string TextOr(const Lookup& lookup, const char* name, const char* fallback) {
  const char* value = lookup(name);
  return value != nullptr ? value : fallback;
}

}  // namespace

absl::StatusOr<Environment> ReadEnvironment(const Lookup& lookup) {
  Environment environment;
  DP_ASSIGN_OR_RETURN(environment.coordinator, Text(lookup, "DP_COORDINATOR"));
  DP_ASSIGN_OR_RETURN(const uint64_t job, Count<uint64_t>(lookup, "DP_JOB"));
  DP_ASSIGN_OR_RETURN(const uint64_t generation, Count<uint64_t>(lookup, "DP_GENERATION"));
  DP_ASSIGN_OR_RETURN(environment.rank, Count<int>(lookup, "DP_RANK"));
  DP_ASSIGN_OR_RETURN(environment.world_size, Count<int>(lookup, "DP_WORLD_SIZE"));
  environment.job = JobId(job);
  environment.generation = Generation(generation);
  if (environment.rank < 0 || environment.rank >= environment.world_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "DP_RANK is ", environment.rank, ", but DP_WORLD_SIZE is ", environment.world_size));
  }
  environment.credentials = TextOr(lookup, "DP_CREDENTIALS", "");
  environment.worker = TextOr(lookup, "DP_WORKER", "");
  environment.address = TextOr(lookup, "DP_ADDRESS", "127.0.0.1");
  environment.gloo_interface = TextOr(lookup, "GLOO_SOCKET_IFNAME", "");
  environment.metrics_file = TextOr(lookup, "DP_METRICS_FILE", "");
  environment.no_gpu_because = TextOr(lookup, "DP_NO_GPU_BECAUSE", "");
  const std::string device = TextOr(lookup, "DP_DEVICE", "cpu");
  environment.on_gpu = device == "cuda";
  if (!environment.on_gpu && device != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("DP_DEVICE is '", device, "', neither cpu nor cuda"));
  }
  return environment;
}

}  // namespace dp::trainer
