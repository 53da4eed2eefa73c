#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

// The network interfaces over which a rank exchanges data, as GLOO_SOCKET_IFNAME lists them.

namespace dp::engine {

// The names in a list with commas. Empty for an empty list.
std::vector<std::string> InterfaceNames(absl::string_view list);

// Whether this host has each of the interfaces. Errors: InvalidArgument names one that does not
// exist, and those that do. Pure.
absl::Status CheckInterfacesExist(absl::Span<const std::string> wanted,
                                  absl::Span<const std::string> existing);
// Those of the process' network namespace.
std::vector<std::string> InterfacesOfThisHost();

// Whether all ranks list as many interfaces; `lists` is by rank. The same answer on every rank.
// Errors: FailedPrecondition names two ranks and their lists. Pure.
absl::Status CheckListsAsLong(absl::Span<const std::string> lists);

}  // namespace dp::engine
