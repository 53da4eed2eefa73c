#include "store/wire/tcp_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/wire/deadline.h"

namespace dp::wire {
namespace {

// How long a server may take to confirm that a wait is cancelled.
constexpr absl::Duration kCancelTimeout = absl::Seconds(30);

// The key in which PyTorch's clients count themselves; harmless to check.
constexpr char kCounter[] = "init/";

}  // namespace

absl::StatusOr<std::unique_ptr<TcpConnection>> TcpConnection::Open(const TcpEndpoint& endpoint,
                                                                   absl::Duration timeout) {
  const Deadline deadline(timeout);
  absl::Status refused;
  for (const bool ping : {true, false}) {
    if (!ping && (endpoint.dialect != Dialect::kC || deadline.passed())) break;
    DP_ASSIGN_OR_RETURN(FileDescriptor socket,
                        Connect(endpoint.host, endpoint.port, deadline.left()));
    std::unique_ptr<TcpConnection> connection(new TcpConnection(endpoint, std::move(socket)));
    refused = connection->ShakeHands(ping, deadline.left());
    if (refused.ok()) return connection;
  }
  const absl::StatusCode code =
      absl::IsDataLoss(refused) ? absl::StatusCode::kDataLoss : absl::StatusCode::kUnavailable;
  return absl::Status(
      code, absl::StrCat("store at ", endpoint.host, ":", endpoint.port,
                         " does not answer as expected: ", refused.message(),
                         "; check the port, where another server may listen, or a PyTorch "
                         "whose dialect is another"));
}

absl::Status TcpConnection::ShakeHands(bool ping, absl::Duration timeout) {
  if (endpoint_.dialect == Dialect::kC) Tell({Verb::kValidate, {{}, kMagic}});
  const int64_t nonce = getpid();
  const bool echoes = endpoint_.dialect == Dialect::kC && ping;
  const Request request =
      echoes ? Request{Verb::kPing, {{}, nonce}} : Request{Verb::kCheck, {{kCounter}}};
  DP_ASSIGN_OR_RETURN(const Fields reply, Call(request, timeout));
  if (echoes && reply.number != nonce) return absl::DataLossError("a wrong echo");
  if (!echoes && reply.number != kReady && reply.number != kNotReady)
    return absl::DataLossError(
        absl::StrCat("the check of a key was answered by ", reply.number, ", which no store says"));
  return heard_.empty() ? absl::OkStatus() : absl::DataLossError("more bytes than the answer");
}

absl::Status TcpConnection::Unreadable(const absl::Status& reply) const {
  return {reply.code(), absl::StrCat("the answer of the store at ", endpoint_.host, ":",
                                     endpoint_.port, ": ", std::string(reply.message()),
                                     "; check that the port is a store's, and keep less in it")};
}

absl::Status TcpConnection::Closed() const {
  return absl::UnavailableError(absl::StrCat("the store at ", endpoint_.host, ":", endpoint_.port,
                                             " has closed the connection"));
}

void TcpConnection::Tell(const Request& request) {
  AppendRequest(endpoint_.dialect, request, &unsent_);
}

absl::StatusOr<Fields> TcpConnection::Call(const Request& request, absl::Duration timeout) {
  if (!CodeOf(request.verb, endpoint_.dialect))
    return absl::UnimplementedError(
        absl::StrCat("the store's dialect has no ", NameOf(request.verb)));
  Tell(request);
  return Exchange(ReplyShape(request.verb), request.fields.strings.size(), timeout);
}

absl::Status TcpConnection::Wait(std::vector<std::string> keys, absl::Duration timeout) {
  const absl::Status met = Call({Verb::kWait, {std::move(keys)}}, timeout).status();
  if (absl::IsDeadlineExceeded(met) && CodeOf(Verb::kCancelWait, endpoint_.dialect))
    DP_RETURN_IF_ERROR(CancelWait(kCancelTimeout));
  return met;
}

absl::Status TcpConnection::CancelWait(absl::Duration timeout) {
  Tell({Verb::kCancelWait});
  for (;;) {
    absl::StatusOr<Fields> answer = Exchange(ReplyShape(Verb::kCancelWait), 0, timeout);
    if (!answer.ok()) return absl::UnavailableError(answer.status().message());
    if (answer->number != kWaitCanceled) continue;  // the wait's own answer was in flight
    usable_ = true;
    return absl::OkStatus();
  }
}

absl::StatusOr<Fields> TcpConnection::Exchange(Shape reply, uint64_t count,
                                               absl::Duration timeout) {
  const Deadline deadline(timeout);
  FieldParser parser(endpoint_.limits);
  parser.Begin(reply, count);
  usable_ = false;  // until the reply is complete
  for (;;) {
    DP_RETURN_IF_ERROR(Send());
    absl::string_view input = heard_;
    const absl::StatusOr<bool> complete = parser.Take(&input);
    if (!complete.ok()) return Unreadable(complete.status());
    heard_.erase(0, heard_.size() - input.size());
    if (*complete) {
      usable_ = true;
      return parser.Finish();
    }
    DP_ASSIGN_OR_RETURN(const bool more, Receive());
    if (more) continue;
    const short events = unsent_.empty() ? POLLIN : POLLIN | POLLOUT;
    DP_RETURN_IF_ERROR(AwaitSocket(socket_.get(), events, deadline.left()));
  }
}

absl::Status TcpConnection::Send() {
  while (!unsent_.empty()) {
    const ssize_t sent = send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return absl::OkStatus();
    if (sent < 0 && errno != EINTR) return Closed();
    if (sent > 0) unsent_.erase(0, static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> TcpConnection::Receive() {
  char bytes[size_t{64} << 10];
  const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), 0);
  if (got > 0) {
    heard_.append(bytes, static_cast<size_t>(got));
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  return Closed();
}

void TcpConnection::AwaitClose(absl::Duration timeout) {
  (void)AwaitSocket(socket_.get(), POLLIN, timeout);  // the next call reports what has come
}

}  // namespace dp::wire
