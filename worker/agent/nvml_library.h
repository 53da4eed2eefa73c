#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::worker {

// NVIDIA's management library, loaded at run time: it is wanted neither when dp is built nor on
// hosts without a driver. Whoever uses it declares the few entry points that it needs. Not
// thread-safe; several may be open at once.
class NvmlLibrary {
 public:
  using Handle = void*;
  using Result = int;  // nvmlReturn_t
  static constexpr Result kSuccess = 0;
  static constexpr Result kNotFound = 6;
  static constexpr Result kGpuIsLost = 15;
  static constexpr Result kResetRequired = 16;

  // Loads and initialises it. Errors: NotFound the library, or an entry point, is not there;
  // Unavailable the driver does not take calls.
  static absl::StatusOr<NvmlLibrary> Open(const std::string& library);
  NvmlLibrary(NvmlLibrary&& other) noexcept;
  ~NvmlLibrary();

  // Errors: NotFound.
  template <typename Function>
  absl::Status Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(Symbol(name));
    if (*function != nullptr) return absl::OkStatus();
    return absl::NotFoundError(std::string("NVML has no ") + name);
  }

  // The device that CUDA_VISIBLE_DEVICES would name so: by UUID, or by number on the bus.
  Result HandleOf(const std::string& name, Handle* device) const;
  // In the driver's words.
  std::string ErrorText(Result result) const { return error_string_(result); }
  // Errors: NotFound there is no such thing; Unavailable whatever else the driver says of `what`.
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
