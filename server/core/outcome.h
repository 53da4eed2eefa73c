#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "base/id.h"
#include "base/store/operation.h"

// What a command did: its answer, and the topics whose version it moved.

namespace dp::core {

// Something that a call can wait on. A topic's version is the revision at which it last changed.
struct Topic {
  enum class Kind {
    kJob,
    kJobList,
    kWorld,
    kAssignment,
    kWorkers,
    kStoreKey,  // the value of that name; told also where it was there for a moment only
    kLogs,
    kEvents,
    // An element has entered the queue of that name: told once for each, and each is for one of
    // those who wait.
    kStoreElement,
    kStoreTaken,  // an element has left it: told once for each
    // A world is placed, sealed, closed or asked to hand over. It shares kWorld's version, but does
    // not change when a rank joins: n ranks that wait are not woken n times each.
    kWorldState,
  };
  Kind kind = Kind::kJob;
  uint64_t id = 0;       // job or worker; 0 for lists
  std::string key = {};  // with kStoreKey, kStoreElement and kStoreTaken

  auto operator<=>(const Topic&) const = default;
};

// The answer to a batch of groups: the results of those that were taken, which may be fewer than
// all; nothing was done of the others. Those of a refused group mean nothing.
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

// The answer proper; monostate where the status says everything.
using Reply =
    std::variant<std::monostate, JobId, WorkerId, Epoch, std::vector<StoreResult>, GroupResults>;

// In this order the shell must act: when `journal` is set, make the command durable; then reply;
// then wake whoever waits on one of `changed`.
struct Outcome {
  absl::Status status;
  Reply reply;
  bool journal = false;  // false when nothing changed: a read, a repetition, a refusal
  std::vector<Topic> changed;
  // Jobs that ended long ago and are no longer on record: whatever the shell keeps of them can go.
  std::vector<JobId> forgotten;
};

}  // namespace dp::core
