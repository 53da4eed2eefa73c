#include "worker/trainer/program/cuda_driver.h"

#include <array>
#include <cstddef>
#include <cstdlib>

namespace dp::trainer {

void LoadKernelsAtStart() { (void)setenv("CUDA_MODULE_LOADING", "EAGER", /*replace=*/0); }

absl::StatusOr<CudaDriver> CudaDriver::Load(const std::string& library) {
  DP_ASSIGN_OR_RETURN(const LoadedLibrary loaded, LoadedLibrary::OneOf({library}));
  const CudaDriver driver(loaded);
  DP_RETURN_IF_ERROR(driver.Call("cuInit", 0u));
  return driver;
}

absl::StatusOr<std::string> CudaDriver::Version() const {
  int version = 0;
  DP_RETURN_IF_ERROR(Call("cuDriverGetVersion", &version));
  return absl::StrCat("CUDA ", version / 1000, ".", version / 10 % 100);
}

absl::StatusOr<int> CudaDriver::Count() const {
  int count = 0;
  DP_RETURN_IF_ERROR(Call("cuDeviceGetCount", &count));
  if (count == 0) return absl::NotFoundError("the driver shows none");
  return count;
}

absl::StatusOr<GpuCard> CudaDriver::FirstCard() const {
  DP_RETURN_IF_ERROR(Count().status());
  int device = 0;
  size_t bytes = 0;
  std::array<char, 96> name{};
  DP_RETURN_IF_ERROR(Call("cuDeviceGet", &device, 0));
  DP_RETURN_IF_ERROR(Call("cuDeviceGetName", name.data(), static_cast<int>(name.size()), device));
  DP_RETURN_IF_ERROR(Call("cuDeviceTotalMem_v2", &bytes, device));
  return GpuCard{.model = name.data(), .memory_bytes = static_cast<int64_t>(bytes)};
}

absl::StatusOr<std::string> CudaDriver::FirstDevice() const {
  constexpr int kMajor = 75, kMinor = 76;
  int device = 0, major = 0, minor = 0;
  DP_ASSIGN_OR_RETURN(const int count, Count());
  DP_ASSIGN_OR_RETURN(const GpuCard card, FirstCard());
  DP_RETURN_IF_ERROR(Call("cuDeviceGet", &device, 0));
  DP_RETURN_IF_ERROR(Call("cuDeviceGetAttribute", &major, kMajor, device));
  DP_RETURN_IF_ERROR(Call("cuDeviceGetAttribute", &minor, kMinor, device));
  return absl::StrCat(card.model, ", ", card.memory_bytes >> 20, " MiB, compute capability ", major,
                      ".", minor, ", one of ", count);
}

}  // namespace dp::trainer
