// dp-coordinator: journal, driver, log thread and gRPC server, wired top to bottom.

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/labels.h"
#include "base/program/descriptor_limit.h"
#include "base/program/log.h"
#include "base/program/notify_socket.h"
#include "base/status.h"
#include "base/version.h"
#include "server/driver/ballast.h"
#include "server/driver/driver.h"
#include "server/journal/sqlite_journal.h"
#include "server/logs/log_store.h"
#include "server/logs/log_thread.h"
#include "server/program/data_dir.h"
#include "server/program/disk_shares.h"
#include "server/program/limit_flags.h"
#include "server/program/limits_file.h"
#include "server/program/memory_shares.h"
#include "server/rpc/listen_address.h"
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

constexpr int kExitFailed = 1;
// For errors that every later start would repeat, so the unit makes none. The outside world causes
// no such error: an address or a name may exist soon.
constexpr int kExitUsage = 2;

struct Flags {
  std::string listen = "127.0.0.1:7070";
  std::string tcpstore_listen;
  std::string data_dir;
  std::string lease = "5s";
  std::string store_ports = "29500-30499";
  std::string store_port_rest = "10m";
  std::string port_file;
  std::string limits_file;
  std::string rack_label = "rack";
  bool insecure = false;
  bool accept_data_loss = false;
  uint64_t memory_max = kMemoryMax;
  KeyValueLimits store;
  DiskFlags disk;
};

struct Options {
  ListenAddress listen;
  std::optional<ListenAddress> tcpstore_listen;
  absl::Duration lease;
  core::PlacementPolicy placement;
  std::string data_dir;
  std::string port_file;
  bool accept_data_loss = false;
  MemoryShares memory;
  KeyValueLimits store;
  DiskFlags disk;
};

// Errors: InvalidArgument.
absl::StatusOr<core::StorePortRange> ParsePortRange(const std::string& text) {
  const std::vector<std::string> ends = absl::StrSplit(text, '-');
  core::StorePortRange range;
  if (ends.size() == 2 && absl::SimpleAtoi(ends[0], &range.first) &&
      absl::SimpleAtoi(ends[1], &range.last) && range.first > 0 && range.first <= range.last &&
      range.last <= core::StorePorts::kPortMax) {
    return range;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--store-ports is ", text, "; it must be FIRST-LAST, of 1 to ", core::StorePorts::kPortMax));
}

// Errors: InvalidArgument.
absl::StatusOr<ListenAddress> ParseAddress(const char* flag, const std::string& text,
                                           bool insecure) {
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address.status().message()));
  }
  if (address->loopback() || insecure) return address;
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", text,
      " can be reached from other machines, and calls are neither "
      "encrypted nor authenticated; say --insecure to accept that, or listen on 127.0.0.1"));
}

// Errors: InvalidArgument.
absl::StatusOr<Options> Check(const Flags& flags) {
  if (flags.data_dir.empty()) {
    return absl::InvalidArgumentError(
        "--data-dir is required: the directory for journal and logs, as /var/lib/dp");
  }
  Options options{.data_dir = flags.data_dir,
                  .port_file = flags.port_file,
                  .accept_data_loss = flags.accept_data_loss,
                  .memory = MemoryShares::Of(flags.memory_max),
                  .store = flags.store,
                  .disk = flags.disk};
  DP_ASSIGN_OR_RETURN(options.listen, ParseAddress("--listen", flags.listen, flags.insecure));
  if (!flags.tcpstore_listen.empty()) {
    DP_ASSIGN_OR_RETURN(options.tcpstore_listen,
                        ParseAddress("--tcpstore-listen", flags.tcpstore_listen, flags.insecure));
  }
  if (!absl::ParseDuration(flags.lease, &options.lease) || options.lease < absl::Seconds(1) ||
      options.lease > absl::Hours(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--lease is ", flags.lease, "; it must be from 1s to 1h, as in 5s"));
  }
  core::StorePortRange& ports = options.placement.ports;
  DP_ASSIGN_OR_RETURN(ports, ParsePortRange(flags.store_ports));
  if (!IsLabelKey(flags.rack_label)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rack-label is \"", flags.rack_label, "\"; it must be ", kLabelKeyRule));
  }
  options.placement.rack_label = flags.rack_label;
  if (!flags.limits_file.empty()) {
    DP_ASSIGN_OR_RETURN(options.placement.limits, ReadLimits(flags.limits_file));
  }
  if (!absl::ParseDuration(flags.store_port_rest, &ports.rest) ||
      ports.rest < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat("--store-port-rest is ", flags.store_port_rest,
                                                   "; it must be a duration, as in 10m"));
  }
  return options;
}

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

// Prints the line on standard output last: scripts wait for it, and then find all else in place.
absl::Status Announce(const Options& options, const ListenAddress& address) {
  if (!options.port_file.empty()) {
    DP_RETURN_IF_ERROR(WritePortFile(options.port_file, address.port));
  }
  Log(Severity::kInfo, "listening", {{"address", address.ToString()}});
  std::printf("dp-coordinator listening on %s\n", address.ToString().c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

// Where ranks find direct stores; empty for a wildcard address: where their worker finds the
// coordinator. nullopt: no direct stores.
std::optional<std::string> DirectStoreHost(const Options& options) {
  if (!options.tcpstore_listen.has_value()) return std::nullopt;
  const std::string& host = options.tcpstore_listen->host;
  return host == "0.0.0.0" || host == "::" ? "" : host;
}

// The sockets that TcpStores serves on. The address is resolved only here. A name that does not
// resolve is an error at the start, and slow resolution holds nobody up later.
struct TcpStoreSockets {
  FileDescriptor listener;
  std::unique_ptr<DirectPorts> ports;  // null: no stores of jobs are served

  // Errors: those of wire::Listen.
  static absl::StatusOr<TcpStoreSockets> Open(const Options& options) {
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
  static absl::StatusOr<std::unique_ptr<TcpStores>> Start(const Options& options,
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
  explicit TcpStores(const Options& options)
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
absl::Status CheckAddresses(const Options& options) {
  DP_RETURN_IF_ERROR(options.listen.CheckFree("--listen"));
  return options.tcpstore_listen ? options.tcpstore_listen->CheckFree("--tcpstore-listen")
                                 : absl::OkStatus();
}

// Serves until a signal arrives (OK) or something fails.
absl::Status Serve(const Options& options, NotifySocket& notify) {
  // Gets the reason why the process ends, from a signal, the driver, or the log thread.
  BoundedQueue<absl::Status> ends(8);
  const auto end = [&ends](absl::Status why) { (void)ends.TryPush(why); };

  DP_RETURN_IF_ERROR(CheckAddresses(options));
  DP_ASSIGN_OR_RETURN(TcpStoreSockets sockets, TcpStoreSockets::Open(options));
  const bool accept_loss = options.accept_data_loss;
  DP_ASSIGN_OR_RETURN(const DataDir data_dir, DataDir::Open(options.data_dir, accept_loss));
  const DiskShares shares = SharesOf(data_dir.disk_bytes());
  const auto disk_available = [&data_dir] { return data_dir.disk_available(); };
  Ballast ballast(data_dir.ballast_file(), shares.ballast_bytes, disk_available);
  ballast.ReleaseWhenFull();
  DP_ASSIGN_OR_RETURN(const auto journal, SqliteJournal::Open(data_dir.journal_file(),
                                                              {.accept_data_loss = accept_loss}));
  if (accept_loss) {
    Log(Severity::kWarning, "data_loss_is_accepted",
        {{"remedy", "start without --accept-data-loss from now on: it hides every later loss"}});
  }
  DP_RETURN_IF_ERROR(data_dir.Sync());
  LogStore log_store(data_dir.logs(), options.disk.LogsOn(shares));
  const std::vector<JobId> logged = log_store.Stored();
  LogThread logs(std::move(log_store), end);
  const auto drop_logs = [&logs](const std::vector<JobId>& jobs) { return logs.Drop(jobs).ok(); };
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
                                                        .on_forgotten = drop_logs,
                                                        .logged = logged,
                                                        .set_logs_aside = set_logs_aside,
                                                        .notify = &notify},
                                                       *journal, Clock::Steady(), end));
  DP_ASSIGN_OR_RETURN(
      const auto server,
      Server::Start(options.listen, *driver, logs, DirectStoreHost(options), options.memory.grpc));
  DP_ASSIGN_OR_RETURN(const auto tcp_stores,
                      TcpStores::Start(options, sockets, *driver, server->callers()));
  DP_RETURN_IF_ERROR(Announce(options, server->address()));
  notify.Ready(absl::StrCat("listening on ", server->address().ToString()));

  std::jthread signals([&end, set = EndSignals()] {
    pthread_setname_np(pthread_self(), "dp-signals");
    int signal = 0;
    sigwait(&set, &signal);
    end(absl::OkStatus());
  });
  std::vector<absl::Status> why;
  while (why.empty()) why = ends.DrainFor(absl::InfiniteDuration());
  Log(Severity::kInfo, "stopping", {{"reason", why[0].ok() ? "signal" : why[0].ToString()}});
  notify.Stopping();
  // Stopping the driver answers all waits; then the server has no call left to wait for.
  driver->Stop();
  logs.Stop();
  server->Stop();
  pthread_kill(signals.native_handle(), SIGTERM);
  return why[0];
}

int Run(int argc, char** argv) {
  NotifySocket notify = NotifySocket::TakeFromEnvironment();
  Flags flags;
  CLI::App app("Runs the coordinator of a dp cluster.", "dp-coordinator");
  app.add_option("--listen", flags.listen, "host:port; port 0 takes a free one")
      ->capture_default_str();
  app.add_option("--tcpstore-listen", flags.tcpstore_listen,
                 "host:port; serve PyTorch's TCPStore there for torchrun's agents, and on this "
                 "host the stores of jobs with store: direct");
  app.add_option("--data-dir", flags.data_dir,
                 "Journal and logs; created where it is missing (required)")
      ->check([](const std::string& path) {
        return path.empty() ? "it is empty; name a directory" : std::string();
      });  // Check() requires the flag; CLI11 would do so before it names an unknown flag
  app.add_option("--lease", flags.lease, "A worker that is silent for longer is lost")
      ->capture_default_str();
  app.add_option("--store-ports", flags.store_ports,
                 "Ports for the TCPStore endpoints of jobs, one each, as FIRST-LAST")
      ->capture_default_str();
  app.add_option("--store-port-rest", flags.store_port_rest,
                 "How long such a port rests after its job; 10s, where no other is left")
      ->capture_default_str();
  app.add_option("--limits", flags.limits_file,
                 "File of what users and queues may hold (docs/scheduling.md)");
  app.add_option("--rack-label", flags.rack_label,
                 "Label of workers that are near each other, as rack or switch")
      ->capture_default_str();
  app.add_option("--port-file", flags.port_file, "Write the port into this file once listening");
  app.add_flag("--insecure", flags.insecure, "Allow listening beyond this machine, unencrypted");
  app.add_flag("--accept-data-loss", flags.accept_data_loss,
               "Start although the journal lacks acknowledged commands (docs/journal.md); only "
               "after a start that was refused for that, and only once");
  AddMemoryLimit(app, flags.memory_max);
  AddStoreLimits(app, flags.store);
  AddDiskLimits(app, flags.disk);
  app.set_version_flag("--version", VersionLine("dp-coordinator"));
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return absl::StrCat("dp-coordinator: ", error.what(),
                        "\nRun with --help for more information.\n");
  });
  app.footer("Example: dp-coordinator --listen 127.0.0.1:7070 --data-dir /var/lib/dp");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const auto options = Check(flags);
  const absl::Status status = options.ok() ? Serve(*options, notify) : options.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "dp-coordinator: %s\n", std::string(status.message()).c_str());
  return options.ok() ? kExitFailed : kExitUsage;
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
