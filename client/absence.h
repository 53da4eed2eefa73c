#pragma once

#include "absl/status/status.h"

namespace dp::client {

// Whether a call failed because nothing is there. An error that the coordinator sent, or a
// handshake that failed, proves that something runs at the address.
enum class Absence {
  kNone,              // it may well run
  kNothingConnected,  // nothing accepts connections at the address, or nothing did in time
  kNoneOnThisHost,    // no coordinator of this user runs on this host
};

// The same error, marked with the absence. Callers that only pass the error on keep the mark.
absl::Status WithAbsence(Absence absence, absl::Status status);
Absence AbsenceIn(const absl::Status& status);

}  // namespace dp::client
