#include "worker/library/backend.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/shm/shm_group.h"

namespace dp::library {
namespace {

absl::StatusOr<OpenedGroup> OpenGloo(Store& store, const GroupPlace& place,
                                     const Variables& variables) {
  const engine::GlooOptions options{
      .group = {.timeout = place.timeout},
      .connect_timeout = place.timeout,
      .address = variables("DP_ADDRESS").value_or(place.own_address),
      .interface = variables("GLOO_SOCKET_IFNAME").value_or(""),
  };
  auto group = engine::ConnectGloo(store, place.rank, place.size, options);
  if (absl::IsInvalidArgument(group.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(group.status().message()),
                     "; set GLOO_SOCKET_IFNAME to the interface, or DP_ADDRESS to the address, at "
                     "which peers reach this host"));
  }
  if (!group.ok()) return group.status();
  return OpenedGroup{*std::move(group), "gloo"};
}

}  // namespace

absl::StatusOr<std::string> BackendNamed(absl::string_view name) {
  std::string lower = absl::AsciiStrToLower(name);
  if (lower == "auto" || lower == "shm") return lower;
  if (lower == "gloo" && DP_HAS_GLOO) return lower;
  if (lower == "gloo" || lower == "nccl" || lower == "mpi") {
    return absl::UnimplementedError(
        absl::StrCat("backend ", lower, " is not part of this build of libdp_distributed; use auto",
                     DP_HAS_GLOO ? ", shm or gloo" : " or shm"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend '", name, "' is unknown; use auto, shm, gloo, nccl or mpi"));
}

absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend, Store& store,
                                      const GroupPlace& place, const Variables& variables) {
  const engine::GroupOptions options{.timeout = place.timeout};
  if (place.size == 1) {
    return OpenedGroup{std::move(engine::MakeLocalGroups(1, options)[0]),
                       backend == "auto" ? "shm" : backend};
  }
  if (backend == "gloo") return OpenGloo(store, place, variables);
  auto group = engine::ConnectShm(store, place.rank, place.size,
                                  {.group = options, .connect_timeout = place.timeout});
  if (group.ok()) return OpenedGroup{*std::move(group), "shm"};
  if (!absl::IsFailedPrecondition(group.status())) return group.status();
  // Every rank gets this verdict, so all of them go on with Gloo.
  if (backend == "auto") return OpenGloo(store, place, variables);
  return absl::FailedPreconditionError(absl::StrCat(
      "backend shm: ", std::string(group.status().message()), "; use backend auto or gloo"));
}

}  // namespace dp::library
