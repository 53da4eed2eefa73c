#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "client/connection.h"
#include "client/dpctl/interrupts.h"
#include "client/dpctl/local_cluster.h"
#include "client/job_check.h"
#include "client/pause.h"
#include "client/retry_loop.h"

namespace dp::ctl {

// The services of one coordinator that dpctl uses. Thread-safe.
class Services {
 public:
  virtual ~Services() = default;
  virtual client::JobsConnection& jobs() = 0;
  virtual client::WorkersConnection& workers() = 0;
  virtual client::LogsConnection& logs() = 0;
  virtual client::StoreConnection& store() = 0;
  virtual client::CheckpointsConnection& checkpoints() = 0;
  // Ends every call under way, and every later one, with Cancelled. Any thread.
  virtual void CancelAll() = 0;
};

// Where a command writes. Data goes to `out`, everything else to `err`.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool err_is_tty = false;
  int columns = 80;
  // errno of the write to `out` that failed; 0 while none has.
  std::function<int()> write_error = [] { return 0; };
};

// What this machine could run ranks on.
struct Machine {
  int cpus = 1;
  std::function<LocalGpus()> gpus = [] { return LocalGpus(); };  // asks the driver
};

// What dpctl stands in: production's is in main.cc, a fake one in tests.
struct Surroundings {
  std::function<std::unique_ptr<Services>(const std::string& address)> connect;
  std::function<absl::StatusOr<std::unique_ptr<LocalCluster>>(const LocalOptions&)> start_local;
  client::SampleShape sample_shape;
  std::string working_dir;  // absolute; that dpctl was called in
  std::string user;         // who calls it, by their own account
  Machine machine;
  Terminal terminal;
  const Clock& clock;
  Interrupts& interrupts;
  // Lets Ctrl-C raise `interrupts` from now on, instead of ending the program.
  std::function<void()> catch_signals;
};

enum class Format { kTable, kJson, kName };

// The flags that every command takes.
struct GlobalFlags {
  std::string coordinator;
  absl::Duration timeout = absl::Seconds(10);
  Format format = Format::kTable;
  bool no_headers = false;
};

// What a command gets to run with. Owned by Main; one thread.
class Context {
 public:
  Context(Surroundings& surroundings, const GlobalFlags& flags)
      : surroundings_(surroundings), flags_(flags) {}

  std::ostream& out() { return surroundings_.terminal.out; }
  std::ostream& err() { return surroundings_.terminal.err; }
  Surroundings& surroundings() const { return surroundings_; }
  const GlobalFlags& flags() const { return flags_; }

  // Connects, at first use.
  Services& coordinator();

  // One RPC, repeated until it succeeds or the coordinator has not answered for --timeout:
  //   context.Call([&](absl::Duration in) { return context.coordinator().jobs().Submit(request,
  //   in); });
  // Errors: those of the RPC; Unavailable and DeadlineExceeded the coordinator cannot be reached.
  template <typename Attempt>
  auto Call(Attempt attempt) {
    return CallFor(flags_.timeout, std::move(attempt));
  }

  // The same for one that goes on for long, where the coordinator may be restarted meanwhile.
  template <typename Attempt>
  auto CallFor(absl::Duration patience, Attempt attempt) {
    return client::RetryLoop(client::RetryPolicy({.deadline = Within(patience)}, EntropySeed()),
                             surroundings_.clock, *pause_, std::move(attempt));
  }

  // From now on no call goes on past `until`, however patient it is.
  void EndBy(absl::Time until) { until_ = until; }
  // `duration`, or what is left until then.
  absl::Duration Within(absl::Duration duration) const;

  // What ends the pauses between attempts: for those who retry by themselves. Until a Reconnect.
  client::Pause& pause() { return *pause_; }

  // Goes to another coordinator than the flags say. Before the first use.
  void ConnectTo(const std::string& address) { flags_.coordinator = address; }

  // Ends the call under way and all later ones with Cancelled, until Reconnect. Any thread, once
  // coordinator() has been used.
  void Interrupt();
  // Starts afresh after an Interrupt, which has returned.
  void Reconnect();

 private:
  Surroundings& surroundings_;
  GlobalFlags flags_;
  absl::Time until_ = absl::InfiniteFuture();
  std::unique_ptr<client::Pause> pause_ = std::make_unique<client::Pause>();
  std::unique_ptr<Services> services_;
};

}  // namespace dp::ctl
