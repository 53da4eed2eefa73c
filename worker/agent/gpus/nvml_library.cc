#include "worker/agent/gpus/nvml_library.h"

#include <dlfcn.h>

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp::worker {

absl::StatusOr<NvmlLibrary> NvmlLibrary::Open(const std::string& library) {
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return absl::NotFoundError(dlerror());
  NvmlLibrary nvml(loaded);
  DP_RETURN_IF_ERROR(nvml.Initialise());
  return nvml;
}

NvmlLibrary::NvmlLibrary(NvmlLibrary&& other) noexcept
    : library_(std::exchange(other.library_, nullptr)),
      initialised_(std::exchange(other.initialised_, false)),
      shutdown_(other.shutdown_),
      error_string_(other.error_string_),
      by_uuid_(other.by_uuid_),
      by_index_(other.by_index_) {}

NvmlLibrary::~NvmlLibrary() {
  if (initialised_) shutdown_();
  if (library_ != nullptr) dlclose(library_);
}

absl::Status NvmlLibrary::Initialise() {
  Result (*init)() = nullptr;
  DP_RETURN_IF_ERROR(Find("nvmlInit_v2", &init));
  DP_RETURN_IF_ERROR(Find("nvmlShutdown", &shutdown_));
  DP_RETURN_IF_ERROR(Find("nvmlErrorString", &error_string_));
  DP_RETURN_IF_ERROR(Find("nvmlDeviceGetHandleByUUID", &by_uuid_));
  DP_RETURN_IF_ERROR(Find("nvmlDeviceGetHandleByIndex_v2", &by_index_));
  DP_RETURN_IF_ERROR(Check(init(), "the driver"));
  initialised_ = true;
  return absl::OkStatus();
}

void* NvmlLibrary::Symbol(const char* name) const { return dlsym(library_, name); }

NvmlLibrary::Result NvmlLibrary::HandleOf(const std::string& name, Handle* device) const {
  unsigned int index = 0;
  return absl::SimpleAtoi(name, &index) ? by_index_(index, device) : by_uuid_(name.c_str(), device);
}

absl::Status NvmlLibrary::Check(Result result, const std::string& what) const {
  if (result == kSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat("NVML on ", what, ": ", ErrorText(result));
  return result == kNotFound ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

}  // namespace dp::worker
