#include <dlfcn.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "client/absence.h"
#include "client/connection.h"
#include "client/credentials.h"
#include "client/grpc_log.h"
#include "client/grpc_store.h"
#include "client/pause.h"
#include "client/refusal.h"
#include "worker/library/grpc_module.h"

namespace dp::library {
namespace {

// How long it may take to find out why a coordinator lets no call in.
constexpr absl::Duration kLookForReason = absl::Seconds(1);

// gRPC has threads and locks, which a fork does not copy: its calls would block for ever.
absl::Status CheckNotForked(pid_t opened_in) {
  if (getpid() == opened_in) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("process ", getpid(), " is a fork of process ", opened_in,
                   ", which had opened a GrpcStore, and gRPC does not work in a fork; open the "
                   "first GrpcStore after the fork, with dp::spawn in the function of the ranks"));
}

// Whether the program uses the gRPC that is here: then the program decides about its log.
bool ProgramHasGrpc() {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  const bool found = program != nullptr && dlsym(program, "grpc_init") != nullptr;
  if (program != nullptr) dlclose(program);
  return found;
}

client::GrpcStoreOptions OptionsOf(const GrpcPlace& place) {
  client::GrpcStoreOptions options{.job = place.job, .generation = place.generation};
  options.caller.rank = place.rank;
  options.caller.name = place.rank < 0 ? "a program" : absl::StrCat("rank ", place.rank);
  return options;
}

// A store with the connection that it needs.
class ConnectedStore final : public Store {
 public:
  ConnectedStore(const GrpcPlace& place, const client::Credentials& credentials)
      : opened_in_(getpid()), parts_(std::make_unique<Parts>(place, credentials)) {}
  // A fork must not close the connection of the process that has opened it.
  ~ConnectedStore() override {
    if (getpid() != opened_in_) (void)parts_.release();
  }

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    DP_RETURN_IF_ERROR(CheckNotForked(opened_in_));
    return parts_->store.Execute(operations);
  }
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    DP_RETURN_IF_ERROR(CheckNotForked(opened_in_));
    return parts_->store.Await(reads, timeout);
  }

  // A read that finds out whether the coordinator answers this caller about this store.
  absl::Status Probe(const GrpcPlace& place) {
    client::GrpcStoreOptions options = OptionsOf(place);
    options.retry.deadline = place.patience;
    return client::GrpcStore(parts_->connection, parts_->pause, options).Check({}).status();
  }

 private:
  struct Parts {
    Parts(const GrpcPlace& place, const client::Credentials& credentials)
        : connection(place.coordinator, credentials), store(connection, pause, OptionsOf(place)) {}

    client::Connection connection;
    client::Pause pause;
    client::GrpcStore store;
  };

  const pid_t opened_in_;
  std::unique_ptr<Parts> parts_;
};

absl::string_view RemedyOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kNotFound:
      return "; 'dpctl ps' lists the jobs";
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return "; a rank may use the store of its own job and generation only, and a person those of "
             "their own jobs";
    case absl::StatusCode::kUnavailable:
      return "; check the address, and that dp-coordinator runs there";
    default:
      return "";
  }
}

// A program has no flags of dpctl, which the client's errors name, and a wrong credential is an
// argument of it.
absl::Status InOptions(const absl::Status& status) {
  constexpr char kOption[] = "GrpcStoreOptions::credentials or DP_CREDENTIALS";
  const absl::StatusCode code =
      absl::IsFailedPrecondition(status) ? absl::StatusCode::kInvalidArgument : status.code();
  return absl::Status(
      code,
      absl::StrReplaceAll(status.message(), {{"--credentials or DP_CREDENTIALS", kOption},
                                             {"--credentials", kOption},
                                             {"give --accept-other-users (DP_ACCEPT_OTHER_USERS=1)",
                                              "set DP_ACCEPT_OTHER_USERS=1"}}));
}

absl::Status WithPlace(const GrpcPlace& place, const absl::Status& status) {
  // A coordinator that does not answer in time is one that cannot be reached.
  const absl::StatusCode code =
      absl::IsDeadlineExceeded(status) ? absl::StatusCode::kUnavailable : status.code();
  return absl::Status(code, absl::StrCat("GrpcStore of job ", place.job.ToString(), ", generation ",
                                         place.generation.ToString(), ", at ", place.coordinator,
                                         ": ", status.message(), RemedyOf(code)));
}

// gRPC reports a refused handshake as a lost connection.
absl::Status Explained(const GrpcPlace& place, const client::CredentialFlags& flags,
                       const absl::Status& status) {
  if (absl::IsUnavailable(status) && client::AbsenceIn(status) == client::Absence::kNone)
    DP_RETURN_IF_ERROR(client::WhyRefused(place.coordinator, flags, kLookForReason));
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ConnectGrpc(const GrpcPlace& place) {
  static const pid_t first_opened_in = getpid();
  DP_RETURN_IF_ERROR(CheckNotForked(first_opened_in));
  if (!ProgramHasGrpc()) client::SilenceGrpcLog();
  const client::CredentialFlags flags{.dir = place.credentials,
                                      .insecure = place.in_plain_text,
                                      .accept_other_users = place.accept_other_users};
  const auto credentials = client::FindCredentials(place.coordinator, flags);
  if (!credentials.ok()) return WithPlace(place, InOptions(credentials.status()));
  auto store = std::make_unique<ConnectedStore>(place, *credentials);
  const absl::Status status = store->Probe(place);
  if (!status.ok()) return WithPlace(place, Explained(place, flags, status));
  return store;
}

}  // namespace dp::library
