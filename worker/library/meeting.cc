#include "worker/library/meeting.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "store/wire/deadline.h"
#include "worker/library/pause.h"

namespace dp::library {
namespace {

// How long a rank waits for rank 0 to close the store of the group before, at the same address.
constexpr absl::Duration kOldStore = absl::Seconds(10);
constexpr absl::Duration kAskAgain = absl::Milliseconds(100);

// A store that serves one group knows every rank once. Without this check a second process of the
// same rank would wait for peers that never come.
absl::Status EnterOnce(Store& store, int rank) {
  DP_ASSIGN_OR_RETURN(const int64_t times, store.Add(absl::StrCat("dp/entered/", rank), 1));
  if (times == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("another process has joined as rank ", rank,
                   "; give each process a rank of its own, and each run an address or a file of "
                   "its own"));
}

// The first rank's number counts; a backend would report less clearly that ranks wait in vain.
absl::Status CheckWorldSize(Store& store, const Meeting& meeting) {
  const std::string size = absl::StrCat(meeting.world_size);
  DP_ASSIGN_OR_RETURN(const std::string first, store.CompareSet("dp/world_size", "", size));
  if (first == size) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("world_size is ", size, " on rank ", meeting.rank, ", and ", first,
                   " on a rank that joined before; give every rank the same"));
}

absl::StatusOr<std::shared_ptr<OpenStore>> MeetInFile(const Meeting& meeting) {
  DP_ASSIGN_OR_RETURN(auto store, OpenFileStore(meeting.path, meeting.world_size));
  DP_RETURN_IF_ERROR(EnterOnce(*store->store, meeting.rank));
  return store;
}

absl::StatusOr<std::shared_ptr<OpenStore>> MeetAtAddress(const distributed::InitOptions& options,
                                                         const Meeting& meeting) {
  const distributed::TcpStoreOptions tcp{.host = meeting.host,
                                         .port = meeting.port,
                                         .is_master = meeting.rank == 0 && !meeting.served,
                                         .timeout = options.timeout};
  const wire::Deadline deadline(std::min(kOldStore, absl::FromChrono(options.timeout)));
  for (;;) {
    DP_ASSIGN_OR_RETURN(auto opened, OpenTcpStore(tcp));
    if (meeting.served) return OpenPrefixStore(meeting.attempt, opened.store);
    // The store of the group before may have had another size, and may close meanwhile.
    absl::Status entered = CheckWorldSize(*opened.store->store, meeting);
    if (entered.ok()) entered = EnterOnce(*opened.store->store, meeting.rank);
    if (entered.ok()) return opened.store;
    if (deadline.passed()) return entered;
    Pause(kAskAgain);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<OpenStore>> OpenMeeting(const distributed::InitOptions& options,
                                                       const Meeting& meeting) {
  switch (meeting.where) {
    case Meeting::Where::kStore:
      return OpenedIn(*options.store);
    case Meeting::Where::kFile:
      return MeetInFile(meeting);
    case Meeting::Where::kTcp:
      break;
  }
  return MeetAtAddress(options, meeting);
}

}  // namespace dp::library
