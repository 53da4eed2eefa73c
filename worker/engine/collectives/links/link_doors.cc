#include "worker/engine/collectives/links/link_doors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// A card is "<host>|<local place>|<TCP place>".
constexpr size_t kHost = 0, kLocal = 1, kTcp = 2;

std::string TextOfDoor(const LinkPlace& place) { return place.token.empty() ? "" : Encode(place); }

absl::StatusOr<std::string> TcpAddress(const std::string& address) {
  if (!address.empty()) return NumericLinkAddress(address);
  return absl::FailedPreconditionError("this rank has no address");
}

}  // namespace

LinkDoors::LinkDoors(std::string host, const std::string& address, int callers)
    : host_(std::move(host)),
      local_(OpenDoor(LocalLinkAddress(Unguessable()), callers)),
      tcp_(OpenDoor(TcpAddress(address), callers)) {}

LinkDoors::Door LinkDoors::OpenDoor(const absl::StatusOr<std::string>& address, int callers) {
  if (!address.ok()) return {address.status(), {}};
  Door door{ListenForLinks(*address, callers), {}};
  if (!door.listener.ok()) return door;
  absl::StatusOr<std::string> at = AddressOfListener(*door.listener);
  if (!at.ok()) return {at.status(), {}};
  door.place = {*std::move(at), Unguessable()};
  return door;
}

std::string LinkDoors::Card() const {
  return absl::StrCat(host_, "|", TextOfDoor(local_.place), "|", TextOfDoor(tcp_.place));
}

absl::StatusOr<LinkMembership> LinkDoors::Join(int rank, const std::vector<std::string>& cards) {
  std::vector<std::vector<std::string>> fields;
  for (const std::string& card : cards) {
    fields.push_back(absl::StrSplit(card, '|'));
    if (fields.back().size() != 3)
      return absl::InternalError(absl::StrCat("'", card, "' is no card of a rank's links"));
  }
  const bool on_one_host =
      !host_.empty() && std::all_of(fields.begin(), fields.end(),
                                    [this](const auto& each) { return each[kHost] == host_; });
  std::vector<LinkPlace> places;
  for (size_t r = 0; r < fields.size(); ++r) {
    const std::string& place = fields[r][on_one_host ? kLocal : kTcp];
    if (place.empty())
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", r, " takes no messages",
          on_one_host ? "" : " from other hosts; give it an address in digits by DP_ADDRESS"));
    DP_ASSIGN_OR_RETURN(places.emplace_back(), DecodeLinkPlace(place));
  }
  DP_ASSIGN_OR_RETURN(FileDescriptor listener,
                      std::move(on_one_host ? local_.listener : tcp_.listener));
  (on_one_host ? tcp_ : local_).listener = absl::FailedPreconditionError("closed");
  return JoinLinks(rank, std::move(places), std::move(listener));
}

}  // namespace dp::engine
