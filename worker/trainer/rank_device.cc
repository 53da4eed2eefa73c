#include "worker/trainer/rank_device.h"

#include "absl/strings/str_cat.h"

namespace dp::trainer {

absl::StatusOr<std::unique_ptr<engine::Device>> OpenRankDevice(const Environment& environment,
                                                               int threads) {
  if (!environment.on_gpu) return engine::OpenCpu(threads);
  auto device = engine::OpenCuda(0);
  if (device.ok()) return device;
  return absl::Status(device.status().code(),
                      absl::StrCat("the GPU cannot be used: ", device.status().message(),
                                   "; 'dp-trainer-cuda --self-check' on this host says more"));
}

}  // namespace dp::trainer
