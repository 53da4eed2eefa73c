#include "worker/trainer/self_check.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "worker/engine/device/device.h"

namespace dp::trainer {
namespace {

// The first of these that can be loaded; it stays loaded, as a device's threads may use it.
absl::StatusOr<void*> LoadOneOf(const std::vector<std::string>& libraries) {
  std::vector<std::string> errors;
  for (const std::string& library : libraries) {
    if (void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return loaded;
    errors.emplace_back(dlerror());
  }
  return absl::NotFoundError(absl::StrJoin(errors, "; "));
}

template <typename Function>
absl::StatusOr<Function> EntryOf(void* library, const char* name) {
  if (void* found = dlsym(library, name)) return reinterpret_cast<Function>(found);
  return absl::NotFoundError(absl::StrCat("it has no ", name));
}

// All the libraries count so: 22809 is 2.28.9.
std::string VersionText(size_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// The driver's API, as far as it describes itself and a device.
class CudaDriver {
 public:
  static absl::StatusOr<CudaDriver> Load() {
    CudaDriver driver;
    DP_ASSIGN_OR_RETURN(driver.library_, LoadOneOf({"libcuda.so.1"}));
    DP_RETURN_IF_ERROR(driver.Call("cuInit", 0u));
    return driver;
  }

  // As "CUDA 13.0".
  absl::StatusOr<std::string> Version() const {
    int version = 0;
    DP_RETURN_IF_ERROR(Call("cuDriverGetVersion", &version));
    return absl::StrCat("CUDA ", version / 1000, ".", version / 10 % 100);
  }

  // As "NVIDIA H100, 81559 MiB, compute capability 9.0, one of 8".
  absl::StatusOr<std::string> FirstDevice() const {
    constexpr int kMajor = 75, kMinor = 76;
    int count = 0, device = 0, major = 0, minor = 0;
    size_t bytes = 0;
    std::array<char, 96> name{};
    DP_RETURN_IF_ERROR(Call("cuDeviceGetCount", &count));
    if (count == 0) return absl::NotFoundError("the driver shows none");
    DP_RETURN_IF_ERROR(Call("cuDeviceGet", &device, 0));
    DP_RETURN_IF_ERROR(Call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device));
    DP_RETURN_IF_ERROR(Call("cuDeviceTotalMem_v2", &bytes, device));
    DP_RETURN_IF_ERROR(Call("cuDeviceGetAttribute", &major, kMajor, device));
    DP_RETURN_IF_ERROR(Call("cuDeviceGetAttribute", &minor, kMinor, device));
    return absl::StrCat(name.data(), ", ", bytes >> 20, " MiB, compute capability ", major, ".",
                        minor, ", one of ", count);
  }

 private:
  template <typename... Arguments>
  absl::Status Call(const char* name, Arguments... arguments) const {
    DP_ASSIGN_OR_RETURN(const auto call, EntryOf<int (*)(Arguments...)>(library_, name));
    const int result = call(arguments...);
    if (result == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(name, " gives error ", result));
  }

  void* library_ = nullptr;
};

absl::StatusOr<std::string> DriverVersion() {
  DP_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load());
  return driver.Version();
}

absl::StatusOr<std::string> DeviceText() {
  DP_ASSIGN_OR_RETURN(const CudaDriver driver, CudaDriver::Load());
  return driver.FirstDevice();
}

// Of a library whose `entry` returns it.
Need LibraryNeed(const std::string& name, const std::vector<std::string>& libraries,
                 const char* entry) {
  const auto look = [libraries, entry]() -> absl::StatusOr<std::string> {
    DP_ASSIGN_OR_RETURN(void* const library, LoadOneOf(libraries));
    DP_ASSIGN_OR_RETURN(const auto version, EntryOf<size_t (*)()>(library, entry));
    return VersionText(version());
  };
  return {name, look, "install it, or set LD_LIBRARY_PATH"};
}

absl::StatusOr<std::string> NcclVersion() {
  DP_ASSIGN_OR_RETURN(void* const library, LoadOneOf({"libnccl.so.2"}));
  DP_ASSIGN_OR_RETURN(const auto ask, EntryOf<int (*)(int*)>(library, "ncclGetVersion"));
  int version = 0;
  if (const int result = ask(&version); result != 0) {
    return absl::UnavailableError(absl::StrCat("ncclGetVersion gives error ", result));
  }
  return VersionText(static_cast<size_t>(version));
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
          LibraryNeed("cublasLt", {DP_CUBLASLT_LIBRARY}, "cublasLtGetVersion"),
          LibraryNeed("cudnn", {"libcudnn.so.9"}, "cudnnGetVersion"),
          {"nccl", NcclVersion, "install it, or set LD_LIBRARY_PATH"},
          {"engine", EngineText, "what is missing above comes first"}};
}

}  // namespace dp::trainer
