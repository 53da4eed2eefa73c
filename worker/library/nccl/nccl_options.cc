#include "worker/library/nccl/nccl_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace dp::library {
namespace {

struct NcclSwitch {
  bool on = false;
  std::string variable;  // that set it
};

// A switch of PyTorch, under its newer name or its older one.
absl::StatusOr<NcclSwitch> ReadNcclSwitch(const std::string& name,
                                          const std::vector<std::string>& values,
                                          const Variables& variables) {
  for (const std::string& variable : {absl::StrCat("TORCH_", name), name}) {
    const std::optional<std::string> value = variables(variable);
    if (!value.has_value() || value->empty()) continue;
    if (std::find(values.begin(), values.end(), *value) == values.end())
      return absl::InvalidArgumentError(
          absl::StrCat(variable, " is '", *value, "'; give one of ", absl::StrJoin(values, ", ")));
    return NcclSwitch{*value != "0", variable};
  }
  return NcclSwitch{};
}

}  // namespace

absl::StatusOr<int> DeviceOf(const NcclPlace& place, const Variables& variables) {
  if (place.device.has_value()) {
    if (*place.device >= 0) return *place.device;
    return absl::InvalidArgumentError(
        absl::StrCat("option device is ", *place.device, "; give the number of a GPU, from 0"));
  }
  const std::optional<std::string> local_rank = variables("LOCAL_RANK");
  if (!local_rank.has_value()) return 0;
  int device = 0;
  if (absl::SimpleAtoi(*local_rank, &device) && device >= 0) return device;
  return absl::InvalidArgumentError(absl::StrCat("LOCAL_RANK is '", *local_rank,
                                                 "'; set the number of this rank on its host, from "
                                                 "0, or give option device"));
}

absl::StatusOr<bool> BlockingWaitOf(const Variables& variables) {
  DP_ASSIGN_OR_RETURN(const NcclSwitch blocks,
                      ReadNcclSwitch("NCCL_BLOCKING_WAIT", {"0", "1"}, variables));
  DP_ASSIGN_OR_RETURN(const NcclSwitch handles,
                      ReadNcclSwitch("NCCL_ASYNC_ERROR_HANDLING", {"0", "1", "2", "3"}, variables));
  if (!blocks.on || !handles.on) return blocks.on;
  return absl::InvalidArgumentError(absl::StrCat(blocks.variable, " and ", handles.variable,
                                                 " are both on, and exclude each other; unset ",
                                                 handles.variable, ", or set it to 0"));
}

}  // namespace dp::library
