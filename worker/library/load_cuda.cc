#include <string>

#include "absl/strings/str_cat.h"
#include "worker/library/cuda_module.h"
#include "worker/library/memory/device_math.h"
#include "worker/library/module_function.h"

// Loads the module that holds the kernels for arrays of a GPU's memory.

namespace dp::library {
namespace {

constexpr absl::string_view kWithoutKernels =
    "arithmetic on a GPU's memory needs the library's kernels";

absl::StatusOr<MakeMathInModule*> LoadMath() {
#ifdef DP_CUDA_MODULE
  const absl::StatusOr<void*> make =
      FindInModule(DP_CUDA_MODULE, kMakeMathInModule, ModuleScope::kOwn);
  if (make.ok()) return reinterpret_cast<MakeMathInModule*>(*make);
  return absl::UnimplementedError(
      absl::StrCat(kWithoutKernels, ", which cannot be loaded: ", make.status().message(),
                   "; install the library's files together"));
#else
  return absl::UnimplementedError(
      absl::StrCat(kWithoutKernels, "; build dp where the CUDA toolkit is, or compute on CPUs"));
#endif
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayMath>> MakeDeviceMath(const GpuUse& use) {
  static const absl::StatusOr<MakeMathInModule*> make = LoadMath();
  if (!make.ok()) return make.status();
  std::unique_ptr<ArrayMath> math;
  (*make)(use.device, use.stream, math);
  return math;
}

}  // namespace dp::library
