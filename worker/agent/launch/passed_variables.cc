#include "worker/agent/launch/passed_variables.h"

#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/variable_pattern.h"

namespace dp::worker {
namespace {

constexpr char kOfTheSystem[] = "PATH HOME USER LOGNAME SHELL TMPDIR TZ LANG LANGUAGE LC_* XDG_*";
constexpr char kOfInterpreters[] = "LD_* PYTHON* VIRTUAL_ENV CONDA_*";
constexpr char kOfLibraries[] =
    "CUDA_* NVIDIA_* CUBLAS_* CUDNN_* NCCL_* NCCL_IB_PKEY GLOO_* UCX_* UCX_IB_PKEY FI_* OMP_* "
    "GOMP_* KMP_* MKL_* OPENBLAS_* ONEDNN_* TORCH_* PYTORCH_* TRITON_* HF_* TF_* XLA_* JAX_* "
    "MALLOC_* ASAN_OPTIONS LSAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS";
// rank_command drops those that describe a place in a job.
constexpr char kOfTheDaemon[] = "DP_*";

std::vector<std::string> Always() {
  return absl::StrSplit(
      absl::StrCat(kOfTheSystem, " ", kOfInterpreters, " ", kOfLibraries, " ", kOfTheDaemon), ' ');
}

}  // namespace

std::vector<std::string> PassedVariables(const std::vector<std::string>& variables,
                                         const std::vector<std::string>& more) {
  std::vector<std::string> patterns = Always();
  patterns.insert(patterns.end(), more.begin(), more.end());
  std::vector<std::string> passed;
  absl::c_copy_if(variables, std::back_inserter(passed), [&](const std::string& variable) {
    const std::string name = variable.substr(0, variable.find('='));
    return absl::c_any_of(
        patterns, [&](const std::string& pattern) { return MatchesVariable(name, pattern); });
  });
  return passed;
}

}  // namespace dp::worker
