#include "client/absence.h"

#include <string>

#include "absl/strings/cord.h"

namespace dp::client {
namespace {

constexpr char kAbsence[] = "dp/absence";
constexpr char kNothingConnected[] = "nothing connected";
constexpr char kNoneOnThisHost[] = "none on this host";

}  // namespace

absl::Status WithAbsence(Absence absence, absl::Status status) {
  if (absence == Absence::kNone) return status;
  const bool none_here = absence == Absence::kNoneOnThisHost;
  status.SetPayload(kAbsence, absl::Cord(none_here ? kNoneOnThisHost : kNothingConnected));
  return status;
}

Absence AbsenceIn(const absl::Status& status) {
  const auto payload = status.GetPayload(kAbsence);
  if (!payload) return Absence::kNone;
  return *payload == kNoneOnThisHost ? Absence::kNoneOnThisHost : Absence::kNothingConnected;
}

}  // namespace dp::client
