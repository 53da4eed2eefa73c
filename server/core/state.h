#pragma once

#include <map>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/access/access_list.h"
#include "server/core/event_history.h"
#include "server/core/generation_store.h"
#include "server/core/job_registry.h"
#include "server/core/outcome.h"
#include "server/core/store_ports.h"
#include "server/core/worker_table.h"

namespace dp::core {

// The whole state that commands make, and nothing else. A snapshot holds exactly this.
struct State {
  Epoch epoch;
  Revision revision;
  absl::Time at = absl::UnixEpoch();  // of the last command
  WorkerTable workers;
  JobRegistry jobs;
  StorePorts store_ports;
  EventHistory events;
  KeyValueLimits store_limits;                     // of this epoch
  KeptAnswers kept_answers = KeptAnswers::kWhole;  // likewise
  std::map<JobId, GenerationStore> stores;         // of the jobs whose world is open
  AccessList access;
  std::map<Topic, Revision> versions;  // of all topics but jobs, which carry their own
};

}  // namespace dp::core
