#include "worker/library/nccl/nccl_use.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status.h"
#include "worker/engine/collectives/nccl/nccl_group.h"
#include "worker/library/gpu/cuda_of_process.h"
#include "worker/library/gpu/device.h"

namespace dp::library {
namespace {

constexpr absl::string_view kNeedNoGpu = "; backends auto, shm and gloo need no GPU";

struct NcclOfProcess {
  Mutex mu;
  std::unique_ptr<engine::NcclApi> loaded DP_GUARDED_BY(mu);
  engine::NcclApi* replaced DP_GUARDED_BY(mu) = nullptr;
};

NcclOfProcess& TheNccl() {
  static auto* const nccl = new NcclOfProcess;  // groups may end during exit
  return *nccl;
}

absl::StatusOr<engine::NcclApi*> LoadedNccl() {
  NcclOfProcess& nccl = TheNccl();
  MutexLock lock(nccl.mu);
  if (nccl.replaced != nullptr) return nccl.replaced;
  if (nccl.loaded == nullptr) {
    absl::StatusOr<std::unique_ptr<engine::NcclApi>> loaded = engine::LoadNccl();
    if (!loaded.ok())
      return absl::UnimplementedError(absl::StrCat(
          "backend nccl cannot be used: ", std::string(loaded.status().message()), kNeedNoGpu));
    nccl.loaded = *std::move(loaded);
  }
  return nccl.loaded.get();
}

absl::Status ChooseDevice(engine::NcclApi& api, int device) {
  const absl::Status chosen = api.UseDevice(device);
  if (chosen.ok()) return chosen;
  return absl::InvalidArgumentError(
      absl::StrCat("device ", device, ": ", std::string(chosen.message()),
                   "; give option device or LOCAL_RANK the number of a GPU that this process sees, "
                   "from 0; nvidia-smi and CUDA_VISIBLE_DEVICES list them"));
}

// Over NCCL, Group::on_host() has these.
bool TakesHostMemory(absl::string_view verb) {
  return verb == "all_reduce" || verb == "broadcast" || verb == "all_gather";
}

}  // namespace

void ReplaceNccl(engine::NcclApi* nccl) {
  ReplaceCuda(nccl);
  NcclOfProcess& process = TheNccl();
  MutexLock lock(process.mu);
  process.replaced = nccl;
}

absl::StatusOr<NcclUse> PrepareNccl(const NcclPlace& place, const Variables& variables) {
  NcclUse use{.stream = place.stream};
  DP_ASSIGN_OR_RETURN(use.blocking_wait, BlockingWaitOf(variables));
  DP_ASSIGN_OR_RETURN(use.device, DeviceOf(place, variables));
  DP_ASSIGN_OR_RETURN(use.api, LoadedNccl());
  // Loads CUDA's runtime too, which GpuOfMemory asks.
  if (const auto gpus = CountGpus("backend nccl cannot be used"); !gpus.ok())
    return absl::UnimplementedError(absl::StrCat(std::string(gpus.status().message()), kNeedNoGpu));
  DP_RETURN_IF_ERROR(ChooseDevice(*use.api, use.device));
  return use;
}

absl::StatusOr<NcclGroup> OpenNccl(OpenStore& store, int rank, int size, absl::Duration timeout,
                                   const NcclPlace& place, const Variables& variables) {
  NcclGroup opened;
  DP_ASSIGN_OR_RETURN(opened.use, PrepareNccl(place, variables));
  engine::NcclOptions options;
  options.group.timeout = timeout;
  options.connect_timeout = timeout;
  options.device = opened.use.device;
  options.compute_stream = place.stream;
  options.messages = true;
  options.message_address = variables("DP_ADDRESS").value_or(store.own_address);
  DP_ASSIGN_OR_RETURN(opened.group,
                      engine::ConnectNccl(*opened.use.api, *store.store, rank, size, options));
  return opened;
}

absl::StatusOr<bool> AreOnDevice(const NcclUse& use, absl::string_view verb,
                                 std::initializer_list<distributed::Elements> arrays) {
  // CUDA's runtime would set up device 0 for the question of a new thread.
  DP_RETURN_IF_ERROR(use.api->UseDevice(use.device));
  bool host = false, device = false;
  for (const distributed::Elements& array : arrays) {
    if (array.bytes == 0) continue;
    DP_ASSIGN_OR_RETURN(const std::optional<int> its, use.api->DeviceOf(array.data));
    (its ? device : host) = true;
    if (!its || *its == use.device) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(verb, " of memory of device ", *its, ", and the group is on device ",
                     use.device, "; copy it there, or join with option device ", *its));
  }
  if (host && device)
    return absl::InvalidArgumentError(
        absl::StrCat(verb,
                     " of a GPU's memory and of the host's; copy one of the arrays, since a "
                     "call takes one kind of memory"));
  if (host && !TakesHostMemory(verb))
    return absl::InvalidArgumentError(
        absl::StrCat(verb,
                     " of the host's memory over backend nccl; copy it to the GPU, or make a "
                     "group of backend gloo by new_group"));
  return !host;
}

}  // namespace dp::library
