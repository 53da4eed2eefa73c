#include "worker/engine/collectives/nccl/nccl_ras.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status.h"
#include "store/wire/deadline.h"
#include "store/wire/socket.h"

namespace dp::engine {
namespace {

constexpr char kDefaultAddress[] = "localhost:28028";
// The limit of the whole exchange: a late operation is reported soon, with RAS's words or without.
constexpr absl::Duration kTimeout = absl::Seconds(2);
// How long RAS itself waits for its peers: one second, its smallest unit.
constexpr char kPeerTimeout[] = "TIMEOUT 1\n";
// A report has about 500 bytes a rank.
constexpr size_t kReportBytesMax = 16 << 20;

// Lines to and from RAS.
class RasConnection {
 public:
  RasConnection(FileDescriptor socket, wire::Deadline deadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  absl::Status Send(absl::string_view text) {
    while (!text.empty()) {
      DP_RETURN_IF_ERROR(wire::AwaitSocket(socket_.get(), POLLOUT, deadline_.left()));
      const ssize_t sent = send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return wire::ErrnoStatus("NCCL RAS");
      if (sent > 0) text.remove_prefix(static_cast<size_t>(sent));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadLine() {
    size_t end = 0;
    while ((end = read_.find('\n')) == std::string::npos) {
      DP_ASSIGN_OR_RETURN(const bool more, ReadSome());
      if (!more) return absl::UnavailableError("NCCL RAS closed the connection");
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    return line;
  }

  // RAS closes the connection after a report.
  absl::StatusOr<std::string> ReadToEnd() {
    for (;;) {
      DP_ASSIGN_OR_RETURN(const bool more, ReadSome());
      if (!more) return std::move(read_);
    }
  }

 private:
  // Whether the connection is still open.
  absl::StatusOr<bool> ReadSome() {
    if (read_.size() > kReportBytesMax)
      return absl::ResourceExhaustedError(
          absl::StrCat("NCCL RAS: more than ", kReportBytesMax, " bytes"));
    DP_RETURN_IF_ERROR(wire::AwaitSocket(socket_.get(), POLLIN, deadline_.left()));
    char bytes[4096];
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return wire::ErrnoStatus("NCCL RAS");
    if (got > 0) read_.append(bytes, static_cast<size_t>(got));
    return got != 0;
  }

  const FileDescriptor socket_;
  const wire::Deadline deadline_;
  std::string read_;
};

}  // namespace

absl::StatusOr<HostPort> RasAddress(const std::string& from_environment) {
  return ParseHostPort(from_environment.empty() ? kDefaultAddress : from_environment);
}

absl::StatusOr<std::string> AskRas(const HostPort& address, absl::Duration timeout) {
  const wire::Deadline deadline(timeout);
  int port = 0;
  if (!absl::SimpleAtoi(address.port, &port)) return absl::InvalidArgumentError(address.port);
  DP_ASSIGN_OR_RETURN(FileDescriptor socket,
                      wire::Connect(address.host, static_cast<uint16_t>(port), deadline.left()));
  RasConnection connection(std::move(socket), deadline);
  DP_RETURN_IF_ERROR(connection.Send("CLIENT PROTOCOL 2\n"));
  DP_ASSIGN_OR_RETURN(const std::string greeting, connection.ReadLine());
  if (!absl::StartsWithIgnoreCase(greeting, "SERVER PROTOCOL "))
    return absl::UnavailableError("what listens there is not NCCL's RAS");
  // RAS answers each command with a line, "OK" or an error. An older RAS knows no formats and stays
  // with text.
  for (const char* command : {kPeerTimeout, "SET FORMAT json\n"}) {
    DP_RETURN_IF_ERROR(connection.Send(command));
    DP_RETURN_IF_ERROR(connection.ReadLine().status());
  }
  DP_RETURN_IF_ERROR(connection.Send("STATUS\n"));
  return connection.ReadToEnd();
}

RasOpinion::RasOpinion(HostPort address, const RasSelf& self)
    : address_(std::move(address)), self_(self) {}

void RasOpinion::Ask() {
  if (std::exchange(asked_, true)) return;
  asking_ = std::jthread([this] {
    pthread_setname_np(pthread_self(), "nccl-ras");
    const absl::StatusOr<std::string> report = AskRas(address_, kTimeout);
    if (!report.ok()) return;
    std::string words = WordsOfRasReport(*report, self_);
    MutexLock lock(mu_);
    words_ = std::move(words);
  });
}

std::string RasOpinion::Words() const {
  MutexLock lock(mu_);
  return words_;
}

}  // namespace dp::engine
