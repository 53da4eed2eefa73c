// dp-coordinator: journal, driver, log thread and gRPC server, wired top to bottom.

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/program/descriptor_limit.h"
#include "base/program/log.h"
#include "base/program/notify_socket.h"
#include "base/program/repeated_reason.h"
#include "base/program/shell_word.h"
#include "base/security/local_credential.h"
#include "base/security/tls13.h"
#include "base/status.h"
#include "server/connections/listen_address.h"
#include "server/driver/ballast.h"
#include "server/driver/driver.h"
#include "server/journal/sqlite_journal.h"
#include "server/logs/log_store.h"
#include "server/logs/log_thread.h"
#include "server/parameters/parameters.h"
#include "server/program/coordinator_options.h"
#include "server/program/data_dir.h"
#include "server/program/disk_shares.h"
#include "server/program/identity_dir.h"
#include "server/rpc/server.h"
#include "server/tcpstore/direct_ports.h"
#include "server/tcpstore/direct_stores.h"
#include "store/async_hash_store.h"
#include "store/key_values.h"
#include "store/wire/message_memory.h"
#include "store/wire/server.h"
#include "store/wire/socket.h"

namespace dp::server {
namespace {

// How soon a changed file of certificates counts.
constexpr absl::Duration kRefreshIdentityEvery = absl::Seconds(5);

constexpr int kExitFailed = 1;

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Renames the finished file into place, so that nobody reads half of it.
absl::Status WritePortFile(const std::string& file, int port) {
  const std::string draft = file + ".new";
  std::error_code error;
  if (std::ofstream out(draft); !(out << port << "\n" << std::flush)) {
    return absl::UnavailableError(absl::StrCat("--port-file ", file, " cannot be written"));
  }
  std::filesystem::rename(draft, file, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--port-file ", file, ": ", error.message()));
}

// No token leads to a certificate from elsewhere.
void PrintHowToCall(const std::string& address) {
  std::printf(
      "its certificate is from elsewhere (--tls-cert), so no join token leads to it; with "
      "certificates\n"
      "of an authority in --client-ca, call it by  dp-worker --coordinator %s --credentials DIR\n"
      "and as administrator by                     dpctl --coordinator %s --credentials DIR\n"
      "docs/security.md says what is in DIR, and how the first administrator gets one\n",
      address.c_str(), address.c_str());
}

// Tells the person at the first start how others come in.
void PrintHowToJoin(const ListenAddress& address, const IdentityDir& identity) {
  char host[256] = "localhost";
  (void)gethostname(host, sizeof(host) - 1);
  ListenAddress reached = address;
  if (address.host == "0.0.0.0" || address.host == "::") reached.host = host;
  const std::string at = ShellWord(reached.ToString());
  if (!identity.tls().own_certificate) return PrintHowToCall(at);
  const Authority& authority = identity.authority();
  const absl::Time now = Clock::System().Now();
  const absl::Duration valid_for = Authority::kTokenDefault;
  const std::string worker = authority.JoinToken({security::Role::kWorker, ""}, 0, now, valid_for);
  const std::string admin =
      authority.JoinToken({security::Role::kAdmin, kLocalAdmin}, 1, now, valid_for);
  std::printf(
      "within an hour, join a worker with:  dp-worker --coordinator %s --join %s\n"
      "and log in as administrator with:    dpctl --coordinator %s login <<< %s\n"
      "later, 'dpctl token' makes others\n",
      at.c_str(), worker.c_str(), at.c_str(), admin.c_str());
}

// Lets programs of the same user find the administrator's credential while the coordinator serves.
class LocalLink {
 public:
  LocalLink(const ListenAddress& address, const IdentityDir& identity)
      : address_(address.ToString()), dir_(identity.admin_dir()) {
    Link();
  }
  ~LocalLink() { security::UnlinkLocalCredential(address_, dir_); }
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;

  // Links again if somebody has removed the link, as systems do with old files in /tmp.
  void Keep() {
    if (absl::IsNotFound(security::FindLocalCredential(address_).status())) Link();
  }

 private:
  void Link() {
    const absl::Status linked = security::LinkLocalCredential(address_, dir_);
    if (!linked.ok()) problems_.Failed(linked);
  }

  const std::string address_;
  const std::string dir_;
  RepeatedReason problems_{"no_local_credential"};
};

// Prints the line on standard output last: scripts wait for it, and then find all else in place.
absl::Status Announce(const CoordinatorOptions& options, const ListenAddress& address,
                      const IdentityDir& identity) {
  if (options.insecure) {
    Log(Severity::kWarning, "insecure",
        {{"reason", "callers in plain text may do everything, and can be read on the network"},
         {"remedy", "start without --insecure once every dp-worker has joined"}});
  }
  if (!options.port_file.empty()) {
    DP_RETURN_IF_ERROR(WritePortFile(options.port_file, address.port));
  }
  Log(Severity::kInfo, "listening", {{"address", address.ToString()}});
  std::printf("dp-coordinator listening on %s\n", address.ToString().c_str());
  if (identity.made()) PrintHowToJoin(address, identity);
  std::fflush(stdout);
  return absl::OkStatus();
}

// Where ranks find direct stores; empty for a wildcard address: where their worker finds the
// coordinator. nullopt: no direct stores.
std::optional<std::string> DirectStoreHost(const CoordinatorOptions& options) {
  if (!options.tcpstore_listen.has_value()) return std::nullopt;
  const std::string& host = options.tcpstore_listen->host;
  return host == "0.0.0.0" || host == "::" ? "" : host;
}

CallLimits CallsOf(const CoordinatorOptions& options) {
  return {.of_caller = static_cast<double>(options.callers.calls_per_second)};
}

// Certificates from elsewhere may last for a few hours only.
ConnectionAge AgeOfConnections(const CoordinatorOptions& options) {
  if (options.identity.clients_file.empty()) return {};
  return {.max = absl::Hours(1)};
}

// The sockets that TcpStores serves on. The address is resolved only here. A name that does not
// resolve is an error at the start, and slow resolution holds nobody up later.
struct TcpStoreSockets {
  FileDescriptor listener;
  std::unique_ptr<DirectPorts> ports;  // null: no stores of jobs are served

  // Errors: those of wire::Listen.
  static absl::StatusOr<TcpStoreSockets> Open(const CoordinatorOptions& options) {
    if (!options.tcpstore_listen.has_value()) return TcpStoreSockets();
    const ListenAddress& address = *options.tcpstore_listen;
    TcpStoreSockets sockets;
    DP_ASSIGN_OR_RETURN(sockets.listener,
                        wire::Listen(address.host, static_cast<uint16_t>(address.port)));
    DP_ASSIGN_OR_RETURN(const std::string end, wire::EndOf(sockets.listener.get()));
    DP_ASSIGN_OR_RETURN(const ListenAddress found, ListenAddress::Parse(end));
    sockets.ports = std::make_unique<DirectPorts>(found.host);
    return sockets;
  }
};

// Serves PyTorch's protocol at an address: a store of no job, which exists as long as the process.
// Also serves, on their own ports, the stores of jobs with `store: direct`.
class TcpStores {
 public:
  // Errors: those of wire::Server::StartOn.
  static absl::StatusOr<std::unique_ptr<TcpStores>> Start(const CoordinatorOptions& options,
                                                          TcpStoreSockets& sockets, Driver& driver,
                                                          StoreCallers& callers) {
    std::unique_ptr<TcpStores> stores(new TcpStores(options));
    if (sockets.ports == nullptr) return stores;
    DP_ASSIGN_OR_RETURN(
        stores->server_,
        wire::Server::StartOn(std::move(sockets.listener), stores->store_,
                              {.requests = {.limits = wire::Limits::For(options.store)},
                               .memory = &stores->memory_}));
    const ListenAddress address{options.tcpstore_listen->host, stores->server_->port()};
    Log(Severity::kInfo, "tcpstore_listening", {{"address", address.ToString()}});
    stores->jobs_ = std::make_unique<DirectStores>(driver, *sockets.ports, callers, options.store,
                                                   stores->memory_);
    return stores;
  }

 private:
  explicit TcpStores(const CoordinatorOptions& options)
      : memory_(options.memory.tcpstore, "raise dp-coordinator --memory-max"),
        store_(options.store) {}

  wire::MessageMemory memory_;  // shared by all servers
  AsyncHashStore store_;
  std::unique_ptr<wire::Server> server_;
  std::unique_ptr<DirectStores> jobs_;
};

// Checks the addresses before the journal is touched, so that no epoch begins that nobody could
// reach.
// Errors: those of ListenAddress::CheckFree.
absl::Status CheckAddresses(const CoordinatorOptions& options) {
  DP_RETURN_IF_ERROR(options.listen.CheckFree("--listen"));
  return options.tcpstore_listen ? options.tcpstore_listen->CheckFree("--tcpstore-listen")
                                 : absl::OkStatus();
}

// Problems are told once, and do not end the coordinator: its certificates hold for weeks.
void RefreshIdentity(IdentityDir& identity, RepeatedReason& problems) {
  const absl::Status status = identity.Refresh(Clock::System().Now());
  status.ok() ? problems.Worked() : (void)problems.Failed(status);
}

// A journal of a release without TLS has none either.
void WarnOfNewAuthority(const std::filesystem::path& identity) {
  Log(Severity::kWarning, "authority_made",
      {{"path", identity.string()},
       {"reason",
        "the journal had no identity: former certificates, logins and tokens no longer "
        "count, and former secrets cannot be opened"},
       {"remedy", "restore the directory from a backup, or let workers and people join again"}});
}

// After `dpctl revoke admin`, with which a stolen copy was made useless, the local administrator
// gets a new credential.
absl::Status ReplaceRevokedAdmin(IdentityDir& identity, Driver& driver) {
  const security::Identity admin{security::Role::kAdmin, kLocalAdmin};
  std::promise<absl::Time> answer;
  DP_RETURN_IF_ERROR(driver.Ask([&](const absl::Status& status, const View& view) {
    answer.set_value(status.ok() ? view.coordinator.state().access.ValidAfter(admin)
                                 : absl::InfinitePast());
  }));
  const absl::Time valid_after = answer.get_future().get();
  if (valid_after == absl::InfinitePast()) return absl::OkStatus();
  return identity.RenewAdmin(
      std::max(Clock::System().Now(), valid_after + security::CertificateAuthority::kClockSkew));
}

// Removes the parameters of jobs that are not on record: a crash came between the job's removal and
// theirs. After accepted data loss the journal may lack jobs that people know, so theirs are kept.
absl::Status DropUnknownParameters(Parameters& parameters, Driver& driver, bool accept_loss) {
  std::promise<std::vector<JobId>> answer;
  DP_RETURN_IF_ERROR(driver.Ask([&](const absl::Status& status, const View& view) {
    std::vector<JobId> unknown;
    for (const JobId job : parameters.store.jobs()) {
      if (status.ok() && view.coordinator.job(job) == nullptr) unknown.push_back(job);
    }
    answer.set_value(std::move(unknown));
  }));
  const std::vector<JobId> unknown = answer.get_future().get();
  if (!accept_loss) return parameters.Drop(unknown);
  for (const JobId job : unknown) DP_RETURN_IF_ERROR(parameters.store.SetAside(job));
  return absl::OkStatus();
}

// Frees the tables of jobs that are over. If it does not come to that now, it will the next time.
void CloseEndedTables(Parameters& parameters, Driver& driver) {
  if (parameters.tables.jobs().empty()) return;
  (void)driver.Ask([&parameters](const absl::Status& status, const View& view) {
    std::vector<JobId> ended;
    for (const JobId id : parameters.tables.jobs()) {
      const core::Job* const job = view.coordinator.job(id);
      if (job == nullptr || job->terminal()) ended.push_back(id);
    }
    if (status.ok()) (void)parameters.Close(std::move(ended));
  });
}

// Serves until a signal arrives (OK) or something fails.
absl::Status Serve(const CoordinatorOptions& options, NotifySocket& notify) {
  // Gets the reason why the process ends, from a signal, the driver, or the log thread.
  BoundedQueue<absl::Status> ends(8);
  const auto end = [&ends](absl::Status why) { (void)ends.TryPush(why); };

  DP_RETURN_IF_ERROR(CheckAddresses(options));
  DP_ASSIGN_OR_RETURN(TcpStoreSockets sockets, TcpStoreSockets::Open(options));
  const bool accept_loss = options.accept_data_loss;
  DP_ASSIGN_OR_RETURN(const DataDir data_dir,
                      DataDir::Open(options.data_dir, {.data_loss = accept_loss,
                                                       .other_users = options.accept_other_users}));
  const DiskShares shares = SharesOf(data_dir.disk_bytes());
  const auto disk_available = [&data_dir] { return data_dir.disk_available(); };
  Ballast ballast(data_dir.ballast_file(), shares.ballast_bytes, disk_available);
  ballast.ReleaseWhenFull();
  const bool is_new = !std::filesystem::exists(data_dir.journal_file());
  DP_ASSIGN_OR_RETURN(const auto journal, SqliteJournal::Open(data_dir.journal_file(),
                                                              {.accept_data_loss = accept_loss}));
  if (accept_loss) {
    Log(Severity::kWarning, "data_loss_is_accepted",
        {{"remedy", "start without --accept-data-loss from now on: it hides every later loss"}});
  }
  DP_ASSIGN_OR_RETURN(IdentityDir identity, IdentityDir::Open(data_dir.identity(), options.identity,
                                                              Clock::System().Now()));
  if (identity.made() && !is_new) WarnOfNewAuthority(data_dir.identity());
  DP_RETURN_IF_ERROR(data_dir.Sync());
  LogStore log_store(data_dir.logs(), options.disk.LogsOn(shares));
  const std::vector<JobId> logged = log_store.Stored();
  LogThread logs(std::move(log_store), end);
  Parameters parameters(data_dir.parameters(), options.disk.ParametersOn(shares), disk_available,
                        options.parameter_memory);
  DP_RETURN_IF_ERROR(parameters.store.Load());
  const auto drop_files = [&](const std::vector<JobId>& jobs) {
    return parameters.Drop(jobs).ok() && logs.Drop(jobs).ok();
  };
  std::function<absl::Status(const std::vector<JobId>&)> set_logs_aside;
  if (accept_loss) {
    set_logs_aside = [&data_dir](const auto& jobs) { return data_dir.SetLogsAside(jobs); };
  }
  DirectPorts* const ports = sockets.ports.get();
  std::function<bool(const core::Job&, int)> usable;
  if (ports != nullptr) {
    usable = [ports](const core::Job& job, int port) { return ports->Keep(job, port); };
  }
  DP_ASSIGN_OR_RETURN(const auto driver, Driver::Start({.lease = options.lease,
                                                        .placement = options.placement,
                                                        .store_port_usable = usable,
                                                        .queue_bytes_max = options.memory.driver,
                                                        .store_limits = options.store,
                                                        .disk = options.disk.JournalOn(shares),
                                                        .disk_available = disk_available,
                                                        .tend_disk = [&] { ballast.Restore(); },
                                                        .on_forgotten = drop_files,
                                                        .logged = logged,
                                                        .set_logs_aside = set_logs_aside,
                                                        .notify = &notify},
                                                       *journal, Clock::Steady(), end));
  DP_RETURN_IF_ERROR(ReplaceRevokedAdmin(identity, *driver));
  DP_RETURN_IF_ERROR(DropUnknownParameters(parameters, *driver, accept_loss));
  DP_ASSIGN_OR_RETURN(const auto server,
                      Server::Start(options.listen, *driver, logs,
                                    {.direct_stores = DirectStoreHost(options),
                                     .grpc_bytes_max = options.memory.grpc,
                                     .connections_of_host = options.callers.connections_per_host,
                                     .connection_age = AgeOfConnections(options),
                                     .calls = CallsOf(options),
                                     .open_calls = {.answer_bytes = options.memory.answers},
                                     .tls = identity.tls(),
                                     .parameters = &parameters,
                                     .plain_text = options.insecure}));
  DP_ASSIGN_OR_RETURN(const auto tcp_stores,
                      TcpStores::Start(options, sockets, *driver, server->callers()));
  LocalLink local_link(server->address(), identity);
  DP_RETURN_IF_ERROR(Announce(options, server->address(), identity));
  notify.Ready(absl::StrCat("listening on ", server->address().ToString()));

  std::jthread signals([&end, set = EndSignals()] {
    pthread_setname_np(pthread_self(), "dp-signals");
    int signal = 0;
    sigwait(&set, &signal);
    end(absl::OkStatus());
  });
  RepeatedReason identity_problems("identity_not_refreshed");
  std::vector<absl::Status> why;
  while (why.empty()) {
    why = ends.DrainFor(kRefreshIdentityEvery);
    RefreshIdentity(identity, identity_problems);
    local_link.Keep();
    CloseEndedTables(parameters, *driver);
  }
  Log(Severity::kInfo, "stopping", {{"reason", why[0].ok() ? "signal" : why[0].ToString()}});
  notify.Stopping();
  // Stopping the driver answers all waits; then the server has no call left to wait for.
  driver->Stop();
  logs.Stop();
  parameters.tables.Stop();
  server->Stop();
  parameters.Stop();
  pthread_kill(signals.native_handle(), SIGTERM);
  return why[0];
}

int Run(int argc, char** argv) {
  NotifySocket notify = NotifySocket::TakeFromEnvironment();
  const auto read = ReadCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&read)) return *exit_code;
  absl::Status status = security::RequireTls13();
  if (status.ok()) status = Serve(std::get<CoordinatorOptions>(read), notify);
  if (status.ok()) return 0;
  std::fprintf(stderr, "dp-coordinator: %s\n", std::string(status.message()).c_str());
  return kExitFailed;
}

}  // namespace
}  // namespace dp::server

int main(int argc, char** argv) {
  // Before any thread starts: threads inherit the mask, and one thread waits for the signals.
  const sigset_t set = dp::server::EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // the write fails instead, and reports it
  // gRPC's own messages repeat ours; GRPC_VERBOSITY brings them back.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  // Nobody else may read jobs and the output of their ranks: files 0600, directories 0700.
  umask(0077);
  dp::RaiseDescriptorLimit();  // one connection per worker and rank
  return dp::server::Run(argc, argv);
}
