#include "tests/sim/environment.h"

#include <iostream>

#include "absl/strings/str_cat.h"

namespace dp::sim {

void Environment::Expect(bool holds, absl::string_view promise) {
  if (holds) return;
  broken.push_back(
      absl::StrCat("at ", absl::FormatDuration(events.now() - absl::UnixEpoch()), ": ", promise));
  Tell(absl::StrCat("BROKEN ", promise));
}

void Environment::Tell(absl::string_view what) const {
  if (!verbose) return;
  std::cout << absl::FormatDuration(events.now() - absl::UnixEpoch()) << "  " << what << "\n";
}

}  // namespace dp::sim
