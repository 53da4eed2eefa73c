#include "server/program/coordinator_options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/labels.h"
#include "base/name.h"
#include "base/status.h"
#include "base/version.h"
#include "server/core/store_ports.h"
#include "server/program/limits_file.h"

namespace dp::server {
namespace {

// As on the command line, not checked.
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
  bool tcpstore_insecure = false;
  std::vector<std::string> tls_names;
  IdentityOptions identity;
  bool accept_data_loss = false;
  bool accept_other_users = false;
  uint64_t memory_max = kMemoryMax;
  uint64_t parameter_memory = kParameterMemory;
  KeyValueLimits store;
  CallerFlags callers;
  DiskFlags disk;
};

// An empty one is most often that of a variable that is not set; it would switch the flag off.
std::string WhyNoPath(const std::string& value) {
  return value.empty() ? "the path is empty; give one, or leave the flag out" : "";
}

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
absl::StatusOr<ListenAddress> ParseAddress(const char* flag, const std::string& text) {
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", address.status().message()));
}

// PyTorch's protocol has neither encryption nor credentials. Errors: InvalidArgument.
absl::StatusOr<ListenAddress> ParseStoreAddress(const std::string& text, bool insecure) {
  DP_ASSIGN_OR_RETURN(const ListenAddress address, ParseAddress("--tcpstore-listen", text));
  if (address.loopback() || insecure) return address;
  return absl::InvalidArgumentError(absl::StrCat(
      "--tcpstore-listen ", text,
      " can be reached from other machines, and PyTorch's stores are neither encrypted nor "
      "authenticated; say --tcpstore-insecure to accept that, or listen on 127.0.0.1"));
}

// Errors: InvalidArgument.
absl::Status CheckIdentity(const IdentityOptions& identity) {
  if (identity.chain_file.empty() == identity.key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tls-cert and --tls-key belong together; give both, or neither for a certificate of the "
      "coordinator's own");
}

// Errors: InvalidArgument.
absl::Status CheckTlsName(const std::string& name) {
  in6_addr address{};
  // Addresses of IPv4 and host names have the form of worker names.
  if (IsWorkerName(name) || inet_pton(AF_INET6, name.c_str(), &address) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--tls-name '", absl::CEscape(name),
                   "' is no name of a host and no address; give one name without wildcards"));
}

// Under which names and addresses the coordinator may be reached.
std::vector<std::string> HostsOf(const ListenAddress& listen,
                                 const std::vector<std::string>& names) {
  std::vector<std::string> hosts = HostsOfThisMachine();
  hosts.insert(hosts.end(), names.begin(), names.end());
  if (listen.host != "0.0.0.0" && listen.host != "::") hosts.push_back(listen.host);
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

// Errors: InvalidArgument.
absl::StatusOr<CoordinatorOptions> Check(const Flags& flags) {
  if (flags.data_dir.empty()) {
    return absl::InvalidArgumentError(
        "--data-dir is required: the directory for journal and logs, as /var/lib/dp");
  }
  CoordinatorOptions options{.data_dir = flags.data_dir,
                             .port_file = flags.port_file,
                             .insecure = flags.insecure,
                             .identity = flags.identity,
                             .accept_data_loss = flags.accept_data_loss,
                             .accept_other_users = flags.accept_other_users,
                             .memory = MemoryShares::Of(flags.memory_max),
                             .parameter_memory = flags.parameter_memory,
                             .store = flags.store,
                             .callers = flags.callers,
                             .disk = flags.disk};
  DP_ASSIGN_OR_RETURN(options.listen, ParseAddress("--listen", flags.listen));
  DP_RETURN_IF_ERROR(CheckIdentity(flags.identity));
  for (const std::string& name : flags.tls_names) DP_RETURN_IF_ERROR(CheckTlsName(name));
  options.identity.accept_other_users = flags.accept_other_users;
  options.identity.hosts = HostsOf(options.listen, flags.tls_names);
  if (!flags.tcpstore_listen.empty()) {
    DP_ASSIGN_OR_RETURN(
        options.tcpstore_listen,
        ParseStoreAddress(flags.tcpstore_listen, flags.tcpstore_insecure || flags.insecure));
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

}  // namespace

std::variant<CoordinatorOptions, int> ReadCommandLine(int argc, char** argv) {
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
  app.add_flag(
      "--tcpstore-insecure", flags.tcpstore_insecure,
      "Let --tcpstore-listen be reached from other machines: PyTorch's protocol has neither "
      "encryption nor credentials");
  app.add_flag("--insecure", flags.insecure,
               "Also serve callers in plain text, who prove nothing and may do everything; for "
               "clusters on their way from a release without TLS");
  app.add_option("--tls-name", flags.tls_names,
                 "A further name or address of this coordinator, for its certificate; may be "
                 "repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--tls-cert", flags.identity.chain_file,
                 "A certificate from elsewhere in place of the coordinator's own, as PEM file")
      ->check(WhyNoPath);
  app.add_option("--tls-key", flags.identity.key_file, "Its private key, as PEM file")
      ->check(WhyNoPath);
  app.add_option("--client-ca", flags.identity.clients_file,
                 "Further authorities whose certificates callers may show, as PEM file")
      ->check(WhyNoPath);
  app.add_option("--crl-dir", flags.identity.crl_dir,
                 "Directory of revocation lists of these authorities, in PEM or DER")
      ->check(WhyNoPath);
  app.add_flag("--accept-data-loss", flags.accept_data_loss,
               "Start although the journal lacks acknowledged commands (docs/journal.md); only "
               "after a start that was refused for that, and only once");
  app.add_flag("--accept-other-users", flags.accept_other_users,
               "Start although other users can write --data-dir, --client-ca, --crl-dir or "
               "--tls-cert, or read --tls-key, as on a volume that is open to all; only where no "
               "other user can reach them, as in a pod");
  AddMemoryLimit(app, flags.memory_max);
  AddParameterMemory(app, flags.parameter_memory);
  AddStoreLimits(app, flags.store);
  AddCallerLimits(app, flags.callers);
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
  absl::StatusOr<CoordinatorOptions> options = Check(flags);
  if (options.ok()) return *std::move(options);
  std::fprintf(stderr, "dp-coordinator: %s\n", std::string(options.status().message()).c_str());
  return kExitUsage;
}

}  // namespace dp::server
