#include "worker/library/backend.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/program/log.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/gloo/gloo_group.h"
#include "worker/engine/collectives/hierarchical/hierarchical_group.h"
#include "worker/engine/collectives/local/local_group.h"
#include "worker/engine/collectives/mpi/mpi_group.h"
#include "worker/engine/collectives/shm/shm_group.h"
#include "worker/library/user_backend.h"

namespace dp::library {
namespace {

// With what to do about an address that is wrong.
absl::Status WithAddressRemedy(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(status.message()),
                   "; set GLOO_SOCKET_IFNAME to the interface, or DP_ADDRESS to the address, at "
                   "which peers reach this host"));
}

std::string AddressOf(const OpenStore& store, const Variables& variables) {
  return variables("DP_ADDRESS").value_or(store.own_address);
}
std::string InterfaceOf(const Variables& variables) {
  return variables("GLOO_SOCKET_IFNAME").value_or("");
}

engine::GroupOptions GroupOf(const GroupPlace& place) {
  return {.timeout = place.timeout, .on_left_behind = [rank = place.rank] {
            Log(Severity::kWarning, "group_left_behind",
                {{"rank", rank}, {"reason", "a call of Gloo does not return"}});
          }};
}

absl::StatusOr<OpenedGroup> OpenGloo(OpenStore& store, const GroupPlace& place,
                                     const Variables& variables) {
  auto group = engine::ConnectGloo(*store.store, place.rank, place.size,
                                   {.group = GroupOf(place),
                                    .connect_timeout = place.connect_timeout,
                                    .address = AddressOf(store, variables),
                                    .interface = InterfaceOf(variables)});
  DP_RETURN_IF_ERROR(WithAddressRemedy(group.status()));
  return OpenedGroup{*std::move(group), "gloo", {}};
}

absl::StatusOr<OpenedGroup> OpenHierarchical(OpenStore& store, const GroupPlace& place,
                                             const Variables& variables) {
  auto hosts = engine::ConnectHierarchical(*store.store, place.rank, place.size,
                                           {.group = GroupOf(place),
                                            .connect_timeout = place.connect_timeout,
                                            .address = AddressOf(store, variables),
                                            .interface = InterfaceOf(variables),
                                            .host = ""});
  DP_RETURN_IF_ERROR(WithAddressRemedy(hosts.status()));
  return OpenedGroup{std::move(hosts->group), hosts->backend, {}};
}

// The error of a late rank, with the limit that the program has set: connecting has only what the
// steps before it have left.
absl::Status WithWholeLimit(const absl::Status& status, absl::Duration limit) {
  if (!absl::IsDeadlineExceeded(status) || !absl::StartsWith(status.message(), "connect"))
    return status;
  return engine::DidNotArrive("connect", engine::MissingRanks(status), limit);
}

// The backends of this build for CPUs, for who asked for one that it lacks.
std::string OthersInBuild(absl::string_view lacking) {
  std::vector<absl::string_view> names = {"shm"};
  if (DP_HAS_GLOO) names.insert(names.end(), {"hierarchical", "gloo"});
  if (DP_HAS_MPI) names.push_back("mpi");
  const absl::string_view last = names.back();
  names.pop_back();
  names.insert(names.begin(), lacking == "nccl" ? "auto without a device" : "auto");
  return absl::StrCat(absl::StrJoin(names, ", "), " or ", last);
}

absl::StatusOr<OpenedGroup> OpenWithin(const std::string& backend,
                                       const std::shared_ptr<OpenStore>& store,
                                       const GroupPlace& place, const Variables& variables) {
  const engine::GroupOptions options{.timeout = place.timeout};
  if (IsRegistered(backend)) {
    DP_ASSIGN_OR_RETURN(
        std::unique_ptr<engine::Group> group,
        JoinByUserBackend(
            backend, {distributed::Store(OpenPrefixStore("backend", store)), place.rank, place.size,
                      absl::ToChronoMilliseconds(place.timeout)}));
    return OpenedGroup{std::move(group), backend, {}};
  }
  if (backend == "nccl") {
    DP_ASSIGN_OR_RETURN(NcclGroup opened, OpenNccl(*store, place.rank, place.size, place.timeout,
                                                   place.nccl, variables));
    return OpenedGroup{std::move(opened.group), backend, opened.use};
  }
  if (place.size == 1) {
    return OpenedGroup{
        std::move(engine::MakeLocalGroups(1, options)[0]), backend == "auto" ? "shm" : backend, {}};
  }
  if (backend == "mpi") {
    DP_ASSIGN_OR_RETURN(auto group, engine::ConnectMpi(*store->store, place.rank, place.size,
                                                       {.group = options,
                                                        .connect_timeout = place.connect_timeout,
                                                        .address = AddressOf(*store, variables)}));
    return OpenedGroup{std::move(group), backend, {}};
  }
  if (backend == "gloo") return OpenGloo(*store, place, variables);
  if (backend == "auto") return OpenHierarchical(*store, place, variables);
  if (backend == "hierarchical") {
    DP_ASSIGN_OR_RETURN(OpenedGroup opened, OpenHierarchical(*store, place, variables));
    return OpenedGroup{std::move(opened.group), backend, {}};
  }
  auto group = engine::ConnectShm(*store->store, place.rank, place.size,
                                  {.group = options, .connect_timeout = place.connect_timeout});
  if (group.ok()) return OpenedGroup{*std::move(group), "shm", {}};
  if (!absl::IsFailedPrecondition(group.status())) return group.status();
  return absl::FailedPreconditionError(absl::StrCat(
      "backend shm: ", std::string(group.status().message()), "; use backend auto or gloo"));
}

}  // namespace

bool IsReserved(absl::string_view name) {
  return name == "auto" || name == "shm" || name == "hierarchical" || name == "gloo" ||
         name == "nccl" || name == "mpi" || name == "undefined";
}

absl::StatusOr<std::string> BackendNamed(absl::string_view name, const NcclPlace& nccl) {
  std::string lower = absl::AsciiStrToLower(name);
  if (lower == "auto" && nccl.device.has_value()) lower = "nccl";
  if (lower == "auto" || lower == "shm" || IsRegistered(lower)) return lower;
  if ((lower == "mpi" && DP_HAS_MPI) || (lower == "nccl" && DP_HAS_NCCL)) return lower;
  const bool needs_gloo = lower == "gloo" || lower == "hierarchical";
  if (needs_gloo && DP_HAS_GLOO) return lower;
  if (needs_gloo || lower == "nccl" || lower == "mpi") {
    return absl::UnimplementedError(
        absl::StrCat("backend ", lower, " is not part of this build of libdp_distributed; use ",
                     OthersInBuild(lower)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("backend '", name,
                   "' is unknown; use auto, shm, hierarchical, gloo, nccl or mpi, "
                   "or register it by register_backend"));
}

absl::StatusOr<OpenedGroup> OpenGroup(const std::string& backend,
                                      const std::shared_ptr<OpenStore>& store,
                                      const GroupPlace& place, const Variables& variables) {
  absl::StatusOr<OpenedGroup> opened = OpenWithin(backend, store, place, variables);
  if (opened.ok()) return opened;
  return WithWholeLimit(opened.status(), place.timeout);
}

}  // namespace dp::library
