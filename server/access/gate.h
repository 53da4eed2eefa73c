#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/security/sealing_key.h"
#include "base/security/token.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/access/admission.h"
#include "server/access/call_rates.h"
#include "server/access/caller.h"
#include "server/access/calls_in_flight.h"
#include "server/access/refusals.h"
#include "server/access/stranger_connections.h"
#include "server/driver/driver.h"

namespace dp::server {

// The certificate that the caller has shown, in PEM; empty: none.
std::string CertificateOf(const grpc::CallbackServerContext& context);

// How many calls one caller may make each second, on average. A caller in plain text has no name,
// and no rate.
struct CallLimits {
  double of_caller = 1'000;  // of a person, and of a rank
  // A worker calls for all of its ranks. Its heartbeats have as many of their own.
  double of_worker() const { return of_caller * 10; }
  // All callers at one address that prove nothing: those who join, and those who are rejected.
  double of_strangers() const { return of_caller / 10; }

  // Calls are counted once their messages are whole, and until then each takes 20 kB. A caller may
  // begin half as many that never become whole, such as those that it resets.
  double headers_of_strangers = 250;  // or twice those of one address; all together
  // Afterwards calls are in flight until their answers are sent. More begin only once some have
  // ended: each call costs every other one time.
  static constexpr size_t kInFlightAlways = 64;
  static constexpr double kInFlightOfRate = 4;  // of the calls each second
};

// Finds out who makes a call, and lets it reach the driver only as that caller may. The services
// know the driver by admissions alone. The driver must outlive it. Thread-safe.
class Gate {
 public:
  struct Options {
    // Checks the tokens of ranks. Absent: the server does not use TLS, and has no tokens.
    std::optional<security::TokenKey> token_key = {};
    // Seals the secrets of jobs. Absent: likewise; the server takes no secrets.
    std::optional<security::SealingKey> sealing_key = {};
    // Callers in plain text may do everything (--insecure).
    bool plain_text = false;
    CallLimits calls = {};
    StrangerBytes::Limits strangers = {};
  };

  Gate(Driver& driver, Options options);

  // Never fails: an admission of a caller who may not make the call gives the error.
  Admission Admit(grpc::CallbackServerContext& context, Rpc rpc, AccessObject object = {})
      DP_EXCLUDES(mu_);

  // Whether gRPC may go on with a call whose headers it has read, `path` and `token` among them.
  // Only for connections over TLS. Errors: Unavailable the caller, or all strangers together, have
  // begun too many that are not whole, or have too many in flight.
  absl::Status CheckHeaders(const grpc::AuthContext& connection, absl::string_view path,
                            std::optional<absl::string_view> token) DP_EXCLUDES(mu_);

  // For the builder of the server: tell the gate when calls end.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Interceptors();

  bool plain_text() const { return options_.plain_text; }
  const std::optional<security::TokenKey>& token_key() const { return options_.token_key; }
  const std::optional<security::SealingKey>& sealing_key() const { return options_.sealing_key; }
  Refusals& refusals() { return refusals_; }
  // For whoever accepts connections. The gate says which of them are no strangers' any more.
  StrangerConnections& strangers() { return strangers_; }
  const core::PlacementPolicy& placement() const { return driver_.placement(); }

 private:
  class InFlight;
  class Factory;

  // Certificates of so many connections stay parsed; each takes about 2 kB.
  static constexpr size_t kParsedMax = 20'000;
  // Calls without their messages that a caller may begin at once, in time.
  static constexpr absl::Duration kHeadersSavedUp = absl::Seconds(4);
  // A stranger's first two calls on each connection, and one each second, go on whatever others do.
  // Whoever joins, and a probe of the health, needs no more.
  static constexpr double kFirstCallsPerSecond = 1;
  // Calls that end with their headers go to the refusals so often.
  static constexpr double kNotesPerSecond = 100;

  // Errors: Unauthenticated the certificate or token does not count. `caller` is set all the same,
  // as far as it is known.
  absl::Status Identify(const grpc::AuthContext& connection, std::optional<absl::string_view> token,
                        Caller& caller) DP_EXCLUDES(mu_);
  absl::Status IdentifyByCertificate(absl::string_view pem, Caller& caller) DP_EXCLUDES(mu_);

  // Counts the call. Errors: ResourceExhausted the caller makes too many; the metadata of the call
  // then says when to retry.
  absl::Status Count(grpc::CallbackServerContext& context, Rpc rpc, const Caller& caller,
                     bool known) DP_EXCLUDES(mu_);
  absl::Status CheckHeadersOf(const Caller& caller, bool heartbeat) DP_EXCLUDES(mu_);
  absl::Status CheckHeadersOfStranger(const grpc::AuthContext& connection) DP_EXCLUDES(mu_);
  bool MayNoteHeaders() DP_EXCLUDES(mu_);
  // Counts a call that has come whole, and no longer its headers. Returns how long the caller must
  // wait; zero: the call goes on. `known`: the name is that of a caller; else it is a host's.
  absl::Duration Take(CallsInFlight::Call call, bool known, const std::string& name,
                      double per_second) DP_EXCLUDES(mu_);
  void End(CallsInFlight::Call call) DP_EXCLUDES(mu_);
  bool HasTooManyInFlight(absl::string_view name, double per_second) const DP_REQUIRES(mu_);
  double headers_of_strangers() const;

  Driver& driver_;
  const Options options_;
  const Clock& clock_ = Clock::Steady();
  Refusals refusals_;
  StrangerConnections strangers_;

  Mutex mu_;
  CallRates rates_ DP_GUARDED_BY(mu_);
  CallRates rates_of_headers_ DP_GUARDED_BY(mu_){CallRates::kCallersMax, kHeadersSavedUp};
  CallRates rates_of_strangers_headers_ DP_GUARDED_BY(mu_){1, kHeadersSavedUp};
  // By connection: the first calls of strangers.
  CallRates rates_of_new_connections_ DP_GUARDED_BY(mu_){CallRates::kCallersMax, absl::Seconds(2)};
  CallRates rates_of_notes_ DP_GUARDED_BY(mu_){1, absl::Seconds(1)};
  CallsInFlight in_flight_ DP_GUARDED_BY(mu_);
  CallRates rates_of_strangers_ DP_GUARDED_BY(mu_);  // invented addresses crowd out no known caller
  absl::flat_hash_map<std::string, Caller> parsed_ DP_GUARDED_BY(mu_);  // by certificate in PEM
};

}  // namespace dp::server
