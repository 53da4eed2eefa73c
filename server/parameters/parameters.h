#pragma once

#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/id.h"
#include "server/parameters/call_places.h"
#include "server/parameters/call_timers.h"
#include "server/parameters/parameter_store.h"
#include "server/parameters/parameter_tables.h"
#include "server/parameters/task_threads.h"

namespace dp::server {

// The parts of the parameter service, for main and the RPCs. Thread-safe.
struct Parameters {
  // Calls that move data at a time; each holds a few chunks. The others wait for their turn. The
  // ranks of one job, or one person, leave a quarter to others.
  static constexpr int kStreamsMax = 512;
  static constexpr int kStreamsOfOneMax = 384;
  // Pulls that wait for a version or for values: two for each of 10,000 ranks. A rank needs one at
  // a time, and leaves those of its broken connections until their time is over.
  static constexpr int kWaitsMax = 20'000;
  static constexpr int kWaitsOfCallerMax = 64;
  // A stream ends when its client sends or takes nothing for so long.
  static constexpr absl::Duration kStalled = absl::Seconds(60);
  // They copy and check chunks, and wait for the disk.
  static constexpr int kThreads = 4;
  // They write states of tables, which are as large as models, and remove sets. Streams go on.
  static constexpr int kWriters = 4;

  // Memory of all tables, where no flag sets it.
  static constexpr uint64_t kMemoryMax = uint64_t{4} << 30;

  explicit Parameters(std::filesystem::path dir, const ParameterLimits& limits = {},
                      std::function<uint64_t()> available = {}, uint64_t memory_max = kMemoryMax)
      : store(std::move(dir), limits, std::move(available)), tables(store, writers, memory_max) {}

  // Removes the sets of these jobs soon; logs what cannot be removed. Errors: Unavailable.
  absl::Status Drop(std::vector<JobId> jobs);
  // Ends the tables of these jobs soon, after their last states were written. Errors: Unavailable.
  absl::Status Close(std::vector<JobId> jobs);
  // Ends what the service's threads do. The server must have stopped; `tables` before it, whose
  // answers end calls. Idempotent.
  void Stop() {
    writers.Stop();
    threads.Stop();
  }

  // In one answer of List: of at most 1 kB each, far from the bound on messages.
  int versions_of_page = 500;
  ParameterStore store;
  CallPlaces streams{kStreamsMax, kStreamsOfOneMax, "streams of parameters open"};
  CallPlaces waits{kWaitsMax, kWaitsOfCallerMax, "pulls of parameters that wait"};
  CallTimers timers;
  TaskThreads threads{"dp-parameters", kThreads};
  TaskThreads writers{"dp-publish", kWriters};
  ParameterTables tables;  // last: its tables use the others
};

}  // namespace dp::server
