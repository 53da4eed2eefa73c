#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::worker {

// NVIDIA's management library, loaded at run time: neither dp's build nor a host without a driver
// needs it. Each user declares the few entry points that it calls. Not thread-safe; several may be
// open at once.
class NvmlLibrary {
 public:
  using Handle = void*;
  using Result = int;  // nvmlReturn_t
  static constexpr Result kSuccess = 0;
  static constexpr Result kNotFound = 6;
  static constexpr Result kGpuIsLost = 15;
  static constexpr Result kResetRequired = 16;

  // Loads and initialises the library. Errors: NotFound the library or an entry point is missing;
  // Unavailable the driver rejects calls.
  static absl::StatusOr<NvmlLibrary> Open(const std::string& library);
  NvmlLibrary(NvmlLibrary&& other) noexcept;
  ~NvmlLibrary();

  // Errors: NotFound the library has no such function.
  template <typename Function>
  absl::Status Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(Symbol(name));
    if (*function != nullptr) return absl::OkStatus();
    return absl::NotFoundError(std::string("NVML has no ") + name);
  }

  // The device by its name in CUDA_VISIBLE_DEVICES: a UUID, or a number on the bus.
  Result HandleOf(const std::string& name, Handle* device) const;
  // In the driver's words.
  std::string ErrorText(Result result) const { return error_string_(result); }
  // The status of a call about `what`. Errors: NotFound no such thing; Unavailable any other error.
  absl::Status Check(Result result, const std::string& what) const;

 private:
  explicit NvmlLibrary(void* library) : library_(library) {}
  void* Symbol(const char* name) const;
  absl::Status Initialise();

  void* library_;
  bool initialised_ = false;
  Result (*shutdown_)() = nullptr;
  const char* (*error_string_)(Result) = nullptr;
  Result (*by_uuid_)(const char*, Handle*) = nullptr;
  Result (*by_index_)(unsigned int, Handle*) = nullptr;
};

}  // namespace dp::worker
