#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "client/connection.h"
#include "client/dpctl/interrupts.h"
#include "client/dpctl/local/local_cluster.h"
#include "client/dpctl/logins.h"
#include "client/pause.h"
#include "client/retry_loop.h"
#include "proto/job/job_check.h"

namespace dp::ctl {

// Where a command writes. Data goes to `out`, everything else to `err`.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool out_is_tty = false;
  bool err_is_tty = false;
  int columns = 80;
  // errno of the failed write to `out`; 0 if none failed.
  std::function<int()> write_error = [] { return 0; };

  bool is_tty(const std::ostream& stream) const {
    return &stream == &out ? out_is_tty : &stream == &err && err_is_tty;
  }
};

// The resources of this machine on which ranks could run.
struct Machine {
  int cpus = 1;
  std::function<LocalGpus()> gpus = [] { return LocalGpus(); };  // asks the driver
};

// The surroundings of dpctl: main.cc makes the real ones, tests make fakes.
struct Surroundings {
  // Without a credential for the address, every call of the connection says so.
  std::function<std::unique_ptr<client::Connection>(const std::string& address,
                                                    const client::CredentialFlags& flags)>
      connect;
  // Why the coordinator at the address refuses connections of such a caller; OK: not known. Blocks.
  std::function<absl::Status(const std::string& address, const client::CredentialFlags& flags)>
      why_refused;
  Logins logins;
  std::function<absl::StatusOr<std::unique_ptr<LocalCluster>>(const LocalOptions&)> start_local;
  // Carries out a request by the dp-trainer of this machine, both in JSON (dp/v1/inference.proto).
  std::function<absl::StatusOr<std::string>(const std::string& verb, const std::string& request)>
      run_trainer;
  FormOfSamples form_of_samples;
  std::string working_dir;  // absolute; where dpctl was called
  std::string user;         // the caller, by their own account
  Machine machine;
  Terminal terminal;
  const Clock& clock;
  Interrupts& interrupts;
  // Makes Ctrl-C raise `interrupts` from now on, instead of ending the program.
  std::function<void()> catch_signals;
};

enum class Format { kTable, kJson, kName };

// The flags that every command takes.
struct GlobalFlags {
  std::string coordinator;
  client::CredentialFlags credentials;
  absl::Duration timeout = absl::Seconds(10);
  Format format = Format::kTable;
  bool no_headers = false;
};

// The context of one run of a command; one thread.
class Context {
 public:
  Context(Surroundings& surroundings, const GlobalFlags& flags)
      : surroundings_(surroundings), flags_(flags) {}

  std::ostream& out() { return surroundings_.terminal.out; }
  std::ostream& err() { return surroundings_.terminal.err; }
  Surroundings& surroundings() const { return surroundings_; }
  const GlobalFlags& flags() const { return flags_; }

  // Connects at first use.
  client::Connection& coordinator();

  // One RPC, repeated until it succeeds or the coordinator has not answered for --timeout:
  //     context.Call(&v1::Jobs::Stub::Submit, request);
  // Errors: those of the RPC; Unavailable and DeadlineExceeded the coordinator is out of reach;
  // those of Surroundings::why_refused, until a call has succeeded.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(client::Rpc<Stub, Request, Response> rpc,
                                const std::type_identity_t<Request>& request) {
    return CallFor(flags_.timeout, [&](absl::Duration deadline_in) {
      return coordinator().Call(rpc, request, deadline_in);
    });
  }

  // Repeats `attempt` in the same way, as client::RetryLoop: for a long call during which the
  // coordinator may restart, or whose request depends on the time.
  template <typename Attempt>
  auto CallFor(absl::Duration patience, Attempt attempt) {
    return client::RetryLoop(client::RetryPolicy({.deadline = Within(patience)}, EntropySeed()),
                             surroundings_.clock, *pause_,
                             [&](absl::Duration in) -> decltype(attempt(in)) {
                               auto result = attempt(in);
                               DP_RETURN_IF_ERROR(WhyRefused(client::StatusOf(result)));
                               return result;
                             });
  }

  // From now on every call ends at `until`, however patient it is.
  void EndBy(absl::Time until) { until_ = until; }
  // `duration`, but no more than is left until then.
  absl::Duration Within(absl::Duration duration) const;

  // Ends the pauses between attempts, for callers that retry by themselves. Valid until Reconnect.
  client::Pause& pause() { return *pause_; }

  // Whether a call failed because the coordinator or this program accepts no credential of the
  // caller, or because the caller may not make the call.
  bool refused() const { return refused_; }

  // Replaces the coordinator's address and the credential from the flags. Before the first use.
  void ConnectTo(const std::string& address, const std::string& credential_dir) {
    flags_.coordinator = address;
    flags_.credentials.dir = credential_dir;
    flags_.credentials.insecure = false;
  }

  // Renews the login with which the command has called, if it did and if the login is due
  // (Logins::renew). Once, after the command.
  void RenewLogin();

  // Ends the call in flight and all later calls with Cancelled, until Reconnect. Any thread, once
  // coordinator() was used.
  void Interrupt();
  // Starts afresh after an Interrupt has returned.
  void Reconnect();

 private:
  // Why the coordinator refuses this caller, if a failed call looks like that; else OK. Notes
  // whether the latest call was refused.
  absl::Status WhyRefused(const absl::Status& status);
  absl::Status LookIntoRefusal(const absl::Status& status);

  Surroundings& surroundings_;
  GlobalFlags flags_;
  bool let_in_ = false;  // the coordinator has answered a call, or its refusal was looked into
  absl::Time until_ = absl::InfiniteFuture();
  std::unique_ptr<client::Pause> pause_ = std::make_unique<client::Pause>();
  std::unique_ptr<client::Connection> connection_;
  bool refused_ = false;
};

}  // namespace dp::ctl
