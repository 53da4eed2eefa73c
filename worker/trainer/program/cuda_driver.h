#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/trainer/gpu_card.h"
#include "worker/trainer/program/loaded_library.h"

namespace dp::trainer {

// Has the driver load all kernels when it starts, unless CUDA_MODULE_LOADING is set. By default the
// driver loads each at its first launch. The load stalls the step, and may wait for a collective
// that waits for another rank. Call at the start of main: the driver reads the variable once, and
// no other thread may read the environment meanwhile.
void LoadKernelsAtStart();

// The part of the driver's API that describes the driver and a device. The library is loaded at run
// time, so this works on hosts without one. A plain value; the library stays loaded.
class CudaDriver {
 public:
  // Errors: NotFound no such library, or it lacks an entry; Unavailable the driver's error code.
  static absl::StatusOr<CudaDriver> Load(const std::string& library = "libcuda.so.1");

  // For example "CUDA 13.0".
  absl::StatusOr<std::string> Version() const;
  // The first device that this process sees, in the order of CUDA_VISIBLE_DEVICES. Errors: those of
  // Load; NotFound there is no device.
  absl::StatusOr<GpuCard> FirstCard() const;
  // For example "NVIDIA H100 80GB HBM3, 81559 MiB, compute capability 9.0, one of 8".
  absl::StatusOr<std::string> FirstDevice() const;

 private:
  explicit CudaDriver(LoadedLibrary library) : library_(library) {}

  absl::StatusOr<int> Count() const;
  template <typename... Arguments>
  absl::Status Call(const char* name, Arguments... arguments) const {
    DP_ASSIGN_OR_RETURN(const auto call, library_.Find<int (*)(Arguments...)>(name));
    const int result = call(arguments...);
    if (result == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(name, " gives error ", result));
  }

  LoadedLibrary library_;
};

}  // namespace dp::trainer
