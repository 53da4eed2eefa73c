#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

enum class WorkerState { kReady, kLost };

// Somebody wants the worker empty.
struct Drain {
  std::string reason;
  bool hand_over = false;  // its ranks are to go on elsewhere
  absl::Time at;
};

// What the coordinator remembers of a worker. A plain value: WorkerTable changes it.
struct Worker {
  WorkerId id;
  std::string name;
  std::string host;
  std::string address;
  Incarnation incarnation;  // the current life, or the one that was lost
  WorkerState state = WorkerState::kReady;
  bool leaving = false;  // its daemon is shutting down; its slots are given to nobody
  std::vector<std::optional<RankKey>> slots;  // who holds each; all free when lost
  std::vector<int> ports;                     // by slot, as registered; empty, or one for each
  int gpus = 0;                               // its first slots have one each, or more
  bool trains_on_gpus = false;                // its trainer can use them
  Labels labels;
  std::string interface;                 // that has `address`; may be empty
  std::string process_tracking;          // how it finds all that a rank has started; may be empty
  std::map<int, std::string> unhealthy;  // slot -> why ranks cannot use it; it is given to nobody
  uint64_t slot_report = 0;              // the number of the report that said so
  std::optional<Drain> drain;            // stays from one life to the next
  std::optional<absl::Time> lost_at;
  std::string lost_reason;

  bool ready() const { return state == WorkerState::kReady; }
  // Whether it may be given ranks.
  bool open() const { return ready() && !leaving && !drain.has_value(); }
  // The numbers of the slots that somebody could be given, ascending; none unless it is open.
  std::vector<int> free_slots() const;
  // The jobs that hold a slot, ascending, each once.
  std::vector<JobId> jobs() const;
};

}  // namespace dp::core
