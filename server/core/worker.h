#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/field_list.h"
#include "base/id.h"
#include "server/core/command.h"

namespace dp::core {

enum class WorkerState { kReady, kLost };

// A request to empty the worker.
struct Drain {
  std::string reason;
  bool hand_over = false;  // its jobs are to continue elsewhere
  absl::Time at;

  using Fields = FieldList<&Drain::reason, &Drain::hand_over, &Drain::at>;
};

// The coordinator's record of a worker. A plain value: WorkerTable changes it.
struct Worker {
  WorkerId id;
  std::string name;
  std::string host;
  std::string address;
  Incarnation incarnation;  // the current one, or the one that was lost
  WorkerState state = WorkerState::kReady;
  bool leaving = false;  // its daemon is shutting down; its slots are not given out
  std::vector<std::optional<RankKey>> slots;  // who holds each; all free when lost
  std::vector<int> ports;                     // by slot, as registered; empty, or one for each
  int gpus = 0;                               // the slots below this number have one or more each
  bool trains_on_gpus = false;                // its trainer can use them
  Labels labels;
  std::string interface;                 // the network interface of `address`; may be empty
  std::string process_tracking;          // how it finds all processes of a rank; may be empty
  std::map<int, std::string> unhealthy;  // slot -> why ranks cannot use it; it is not given out
  uint64_t slot_report = 0;              // the number of the latest report about them
  std::optional<Drain> drain;            // kept from one incarnation to the next
  std::optional<absl::Time> lost_at;
  std::string lost_reason;

  using Fields =
      FieldList<&Worker::id, &Worker::name, &Worker::host, &Worker::address, &Worker::incarnation,
                &Worker::state, &Worker::leaving, &Worker::slots, &Worker::ports, &Worker::gpus,
                &Worker::trains_on_gpus, &Worker::labels, &Worker::interface,
                &Worker::process_tracking, &Worker::unhealthy, &Worker::slot_report, &Worker::drain,
                &Worker::lost_at, &Worker::lost_reason>;

  bool ready() const { return state == WorkerState::kReady; }
  // Whether it may get ranks.
  bool open() const { return ready() && !leaving && !drain.has_value(); }
  // Its free and healthy slots, ascending; none unless it is open.
  std::vector<int> free_slots() const;
  // The jobs that hold a slot, ascending, each once.
  std::vector<JobId> jobs() const;
};

}  // namespace dp::core
