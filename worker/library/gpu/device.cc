#include "worker/library/gpu/device.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/library/gpu/cuda_of_process.h"
#include "worker/library/gpu/device_name.h"

namespace dp::library {
namespace {

constexpr const char* kListsOfGpus = "nvidia-smi and CUDA_VISIBLE_DEVICES list them";

Device GpuNumbered(int number) { return {absl::StrCat("cuda:", number), number}; }

std::string DeviceNamed(absl::string_view name) { return absl::StrCat("device '", name, "'"); }

}  // namespace

absl::StatusOr<int> CountGpus(absl::string_view what) {
  const auto none = [&](const std::string& why) {
    return absl::UnimplementedError(absl::StrCat(what, ": ", why));
  };
  const absl::StatusOr<engine::CudaApi*> cuda = TheCuda();
  if (!cuda.ok()) return none(std::string(cuda.status().message()));
  const absl::StatusOr<int> count = (*cuda)->DeviceCount();
  if (count.ok() && *count > 0) return count;
  return none(absl::StrCat("this process sees no GPU (",
                           count.ok() ? "the count is 0" : std::string(count.status().message()),
                           "); ", kListsOfGpus));
}

absl::StatusOr<Device> FindDevice(const std::string& name) {
  DP_ASSIGN_OR_RETURN(DeviceName parsed, ParseDevice(name));
  if (!parsed.is_gpu) return Device{name};
  DP_ASSIGN_OR_RETURN(const int count, CountGpus(DeviceNamed(name)));
  if (!parsed.number) {
    DP_ASSIGN_OR_RETURN(engine::CudaApi* const cuda, TheCuda());
    DP_ASSIGN_OR_RETURN(parsed.number, cuda->ChosenDevice());
  }
  if (*parsed.number < count) return GpuNumbered(*parsed.number);
  return absl::InvalidArgumentError(absl::StrCat("device '", name, "' does not exist: this process",
                                                 " sees ", count, count == 1 ? " GPU" : " GPUs",
                                                 ", from cuda:0 on; ", kListsOfGpus));
}

absl::StatusOr<std::vector<Device>> AllGpus(int first) {
  DP_ASSIGN_OR_RETURN(const int count, CountGpus(DeviceNamed("cuda")));
  std::vector<Device> gpus = {GpuNumbered(first)};
  for (int number = 0; number < count; ++number)
    if (number != first) gpus.push_back(GpuNumbered(number));
  return gpus;
}

}  // namespace dp::library
