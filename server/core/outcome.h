#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/id.h"
#include "store/operation.h"

// The result of a command: its answer, and the topics whose version it changed.

namespace dp::core {

// Something that a call can wait on. A topic's version is the revision at which it last changed.
struct Topic {
  enum class Kind {
    kJob,
    kJobList,
    kWorld,
    kAssignment,
    kWorkers,
    kStoreKey,  // the value of that key; also if it existed only for a moment
    kLogs,
    kEvents,
    // An element has entered the queue of that name; once for each element. Each element wakes one
    // of those who wait.
    kStoreElement,
    kStoreTaken,  // an element has left the queue; once for each element
    // A world is placed, sealed, closed or asked to hand over. It shares kWorld's version, but does
    // not change when a rank joins: n ranks that wait are not woken n times each.
    kWorldState,
    kAccess,  // who may do what
  };
  Kind kind = Kind::kJob;
  uint64_t id = 0;       // job or worker; 0 for lists
  std::string key = {};  // with kStoreKey, kStoreElement and kStoreTaken

  auto operator<=>(const Topic&) const = default;
};

// The answer to a batch of groups: the results of the groups that were applied, perhaps not all.
// The remaining groups had no effect. The results of a rejected group are meaningless.
struct GroupResults {
  struct Refused {
    uint32_t group = 0;
    absl::Status status;

    bool operator==(const Refused&) const = default;
  };
  std::vector<StoreResult> results;
  std::vector<Refused> refused;

  bool operator==(const GroupResults&) const = default;
};

// The reply; monostate if the status says everything.
using Reply = std::variant<std::monostate, JobId, WorkerId, Epoch, std::vector<StoreResult>,
                           GroupResults, std::string, bool>;

// The driver acts in this order. It makes the command durable if `journal` is set, replies, and
// wakes whoever waits on a topic of `changed`.
struct Outcome {
  absl::Status status;
  Reply reply;
  bool journal = false;  // false if nothing changed: a read, a repetition, a rejection
  std::vector<Topic> changed;
  // Jobs that are no longer on record: the driver can drop what it keeps of them.
  std::vector<JobId> forgotten;
};

}  // namespace dp::core
