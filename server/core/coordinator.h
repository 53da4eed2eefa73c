#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "server/core/command.h"
#include "server/core/outcome.h"

namespace dp::core {

// The deterministic machine: the same commands in the same order give the same state and outcomes.
// It composes JobRegistry, WorkerTable, Rendezvous and the stores; it branches, they compute.
// Not thread-safe; owned by one thread. Never reads a clock: a command brings its time.
class Coordinator {
 public:
  // Validates and records one command. A command that is refused changes nothing.
  Outcome Apply(const Command& command);

  Epoch epoch() const;
  Revision revision() const;
  // The revision at which the topic last changed; zero when it never did.
  Revision version(const Topic& topic) const;
  // A digest of the whole state, equal after replay of the same journal.
  uint64_t StateHash() const;
};

}  // namespace dp::core
