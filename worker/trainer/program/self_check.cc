#include "worker/trainer/program/self_check.h"

#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/nccl/nccl_api.h"
#include "worker/engine/device/device.h"
#include "worker/trainer/program/cuda_driver.h"
#include "worker/trainer/program/loaded_library.h"

namespace dp::trainer {
namespace {

constexpr char kInstall[] = "install it, or set LD_LIBRARY_PATH";

// These libraries encode 9.19.0 as 91900.
std::string VersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::StatusOr<std::string> DriverVersion() {
  DP_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load());
  return driver.Version();
}

absl::StatusOr<std::string> DeviceText() {
  DP_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load());
  return driver.FirstDevice();
}

// For a library whose function `entry` returns its version.
Need LibraryNeed(const std::string& name, const std::vector<std::string>& libraries,
                 const char* entry) {
  const auto look = [libraries, entry]() -> absl::StatusOr<std::string> {
    DP_ASSIGN_OR_RETURN(const LoadedLibrary library, LoadedLibrary::OneOf(libraries));
    DP_ASSIGN_OR_RETURN(const auto version, library.Find<size_t (*)()>(entry));
    return VersionText(version());
  };
  return {name, look, kInstall};
}

// cuDNN compiles its attention and some convolutions with NVRTC.
absl::StatusOr<std::string> NvrtcVersion() {
  DP_ASSIGN_OR_RETURN(const LoadedLibrary library,
                      LoadedLibrary::OneOf({"libnvrtc.so." DP_CUDA_MAJOR}));
  DP_ASSIGN_OR_RETURN(const auto ask, library.Find<int (*)(int*, int*)>("nvrtcVersion"));
  int major = 0, minor = 0;
  if (const int result = ask(&major, &minor); result != 0) {
    return absl::UnavailableError(absl::StrCat("nvrtcVersion gives error ", result));
  }
  return absl::StrCat(major, ".", minor);
}

// Loads everything that a group loads for NCCL.
absl::StatusOr<std::string> NcclVersion() {
  DP_ASSIGN_OR_RETURN(const std::unique_ptr<engine::NcclApi> nccl, engine::LoadNccl());
  return nccl->Version();
}

absl::StatusOr<std::string> EngineText() {
  DP_RETURN_IF_ERROR(engine::OpenCuda(0).status());
  return "can be used";
}

}  // namespace

int SelfCheck(const std::vector<Need>& needs, std::ostream& out) {
  bool all = true;
  for (const Need& need : needs) {
    const absl::StatusOr<std::string> found = need.look();
    all = all && found.ok();
    out << need.name << ": ";
    if (found.ok()) {
      out << *found << '\n';
    } else {
      out << "missing: " << found.status().message() << "; " << need.remedy << '\n';
    }
  }
  return all ? 0 : 1;
}

std::vector<Need> CudaNeeds() {
  return {{"driver", DriverVersion, "install NVIDIA's driver on this host"},
          {"device", DeviceText,
           "look at nvidia-smi, CUDA_VISIBLE_DEVICES, and who may open /dev/nvidia*"},
          LibraryNeed("cublasLt", {"libcublasLt.so." DP_CUDA_MAJOR}, "cublasLtGetVersion"),
          LibraryNeed("cudnn", {"libcudnn.so.9"}, "cudnnGetVersion"),
          {"nvrtc", NvrtcVersion, kInstall},
          {"nccl", NcclVersion, "ranks meet by it, and by CUDA's runtime beside it"},
          {"engine", EngineText, "what is missing above comes first"}};
}

}  // namespace dp::trainer
