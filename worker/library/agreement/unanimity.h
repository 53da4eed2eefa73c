#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "store/store.h"

namespace dp::library {

// Ranks that go on together or not at all, through keys of a store that nobody else uses. Each rank
// consents or objects, once. The first objection is the answer that all of them get. Owned by one
// thread of a rank.
class Unanimity {
 public:
  // `ranks`: whose consent it takes.
  Unanimity(Store& keys, int rank, std::vector<int> ranks);

  // Does not block. Errors: the store's.
  absl::Status Object(absl::string_view why);
  // The first objection, if there is one by now; else empty. Does not block. Errors: the store's.
  absl::StatusOr<std::string> Objection();
  // Blocks until all ranks have consented (an empty answer) or one has objected (its reason).
  // Errors: DeadlineExceeded names `call`, the ranks that have not come, and `limit`, of which
  // `timeout` is left; without a limit it names `timeout`. Also the store's.
  absl::StatusOr<std::string> Consent(absl::string_view call, absl::Duration timeout,
                                      std::optional<absl::Duration> limit = std::nullopt);

 private:
  absl::Status Answer(absl::string_view answer);
  absl::StatusOr<std::string> GetAnswer(absl::Duration timeout);
  absl::Status Late(absl::string_view call, absl::Duration limit);

  Store& keys_;
  const int rank_;
  const std::vector<int> ranks_;
};

}  // namespace dp::library
