#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "store/store.h"

namespace dp::library {

// The group that one rank asks for, when ranks make a group together.
struct WantedGroup {
  int rank = 0;              // this rank, by its number among those that make the group
  std::vector<int> members;  // the ranks of the group, by the same numbers
  std::string text;          // as errors state it: "gives ranks 0, 1 and backend gloo"
};

// Blocks until all members have asked for the same group, by the same text. `keys` belong to this
// one group. A rank that is no member of the group it asks for does not wait. `call` begins the
// errors.
// Errors: InvalidArgument on every rank that the difference concerns; it names two ranks and both
// texts. DeadlineExceeded names the members that did not come. Also the store's.
absl::Status AgreeOnGroup(Store& keys, const WantedGroup& wanted, absl::string_view call,
                          absl::Duration timeout);

}  // namespace dp::library
