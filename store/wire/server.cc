#include "store/wire/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/duration_text.h"
#include "base/program/descriptor_limit.h"
#include "base/program/log.h"
#include "base/status.h"

namespace dp::wire {
namespace {

// Bytes that one connection may send in a turn.
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kEventsPerTurn = 256;
constexpr int kAcceptsPerTurn = 64;
// Nothing reports when the process has free descriptors again.
constexpr int kDescriptorsRetryMs = 100;
// How often a server checks for slow requests; another server may have queued a claim.
constexpr int kSlowLookMs = 1000;
// Bytes per read while memory is short; bytes not yet taken stay in the session.
constexpr size_t kReadBytesWhenShort = size_t{4} << 10;

constexpr uint64_t kListenerId = 0;
constexpr uint64_t kMailboxId = 1;

// No request may need more than the memory grants to one request; sessions round up their claims.
ServerOptions Fitting(ServerOptions options, const MessageMemory& memory) {
  size_t& request = options.requests.limits.message_bytes;
  request = std::min(request, memory.whole_max() - std::min(memory.whole_max(), kReadBytes));
  return options;
}

absl::Status Watch(int epoll, int operation, int descriptor, uint64_t id, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll, operation, descriptor, &event) == 0) return absl::OkStatus();
  return ErrnoStatus("epoll_ctl");
}

}  // namespace

struct Server::Connection {
  Connection(uint64_t id, FileDescriptor socket, const Server& server)
      : id(id),
        socket(std::move(socket)),
        session(id, server.store_, server.options_.requests, server.mailbox_, server.memory_,
                PeerOf(this->socket.get()).value_or("")) {}

  const uint64_t id;
  const FileDescriptor socket;
  uint32_t events = EPOLLIN;  // the events that epoll watches for
  bool held = false;          // is in held_
  bool touched = false;       // is in touched_
  uint64_t unfinished = 0;    // as the session reports; if not 0, the connection is in unfinished_
  absl::Time unfinished_since;
  uint64_t delayed = 0;  // the request that the client was last seen to delay
  absl::Duration delay;  // and how long, as of the session's last report
  Session session;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(AsyncStore& store,
                                                      const ServerOptions& options) {
  DP_ASSIGN_OR_RETURN(FileDescriptor listener, Listen(options.host, options.port));
  return StartOn(std::move(listener), store, options);
}

absl::StatusOr<std::unique_ptr<Server>> Server::StartOn(FileDescriptor listener, AsyncStore& store,
                                                        const ServerOptions& options) {
  DP_RETURN_IF_ERROR(PrepareListener(listener.get()));
  DP_ASSIGN_OR_RETURN(const uint16_t port, PortOf(listener.get()));
  DP_ASSIGN_OR_RETURN(std::shared_ptr<Mailbox> mailbox, Mailbox::Open());
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoStatus("epoll_create1");
  DP_RETURN_IF_ERROR(Watch(epoll.get(), EPOLL_CTL_ADD, listener.get(), kListenerId, EPOLLIN));
  DP_RETURN_IF_ERROR(Watch(epoll.get(), EPOLL_CTL_ADD, mailbox->descriptor(), kMailboxId, EPOLLIN));
  return std::unique_ptr<Server>(
      new Server(std::move(listener), std::move(epoll), port, std::move(mailbox), store, options));
}

Server::Server(FileDescriptor listener, FileDescriptor epoll, uint16_t port,
               std::shared_ptr<Mailbox> mailbox, AsyncStore& store, const ServerOptions& options)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      port_(port),
      mailbox_(std::move(mailbox)),
      store_(store),
      memory_(options.memory ? *options.memory : own_memory_),
      options_(Fitting(options, memory_)),
      buffer_(kReadBytes, '\0'),
      thread_([this](std::stop_token stop) { Serve(stop); }) {}

Server::~Server() {
  thread_.request_stop();
  mailbox_->Wake();
}

void Server::Serve(const std::stop_token& stop) {
  pthread_setname_np(pthread_self(), "tcpstore");
  mailbox_->Adopt();
  std::array<epoll_event, kEventsPerTurn> events;
  while (!stop.stop_requested()) {
    const int ready = epoll_wait(epoll_.get(), events.data(), events.size(), TurnTimeoutMs());
    DP_CHECK(ready >= 0 || errno == EINTR);
    if (ready == 0 && out_of_descriptors()) SetAccepting(true);
    store_.BeginTurn();
    for (int i = 0; i < ready; ++i) OnEvent(events[i].data.u64, events[i].events);
    ContinueHeld();
    NoteShortage();
    DropSlow();
    store_.EndTurn();
  }
  connections_.clear();
  mailbox_->Abandon();
}

int Server::TurnTimeoutMs() const {
  if (!held_.empty()) return 0;
  if (out_of_descriptors()) return kDescriptorsRetryMs;
  return unfinished_.empty() && !memory_.short_of_memory() ? -1 : kSlowLookMs;
}

void Server::OnEvent(uint64_t id, uint32_t events) {
  if (id == kListenerId) return Accept();
  if (id == kMailboxId) return Deliver(mailbox_->TakeOthers());
  auto found = connections_.find(id);
  if (found == connections_.end()) return;  // closed earlier in this turn
  Connection& connection = *found->second;
  absl::Status status;
  if ((events & EPOLLIN) != 0 && connection.session.readable())
    status = Read(connection);
  else if ((events & (EPOLLERR | EPOLLHUP)) != 0)
    status = absl::UnavailableError("connection lost");
  Conclude(connection, status);
}

void Server::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (connections_.size() >= options_.connections_max) return SetAccepting(false);
    if (!HasDescriptor()) return SetAccepting(false);
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.valid()) {
      if (Admits(socket.get())) Open(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return SetAccepting(false);
    } else if (errno != ECONNABORTED && errno != EINTR) {
      return;  // nobody is waiting
    }
  }
}

// Asks before it accepts: a client that is accepted and closed at once would give up.
bool Server::HasDescriptor() const {
  const FileDescriptor next(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
  return next.valid() && !IsReservedDescriptor(next.get());
}

void Server::SetAccepting(bool accepting) {
  if (accepting_ == accepting) return;
  accepting_ = accepting;
  if (!accepting && !std::exchange(was_full_, true))
    Log(Severity::kWarning, "tcpstore_full", {{"port", port_}, {"connections", connections()}});
  DP_CHECK(Watch(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), kListenerId,
                 accepting ? uint32_t{EPOLLIN} : 0)
               .ok());
}

bool Server::Admits(int socket) {
  const absl::Status admitted =
      options_.admit != nullptr ? options_.admit(socket) : absl::OkStatus();
  if (!admitted.ok()) strangers_.Failed(admitted);
  return admitted.ok();
}

void Server::Open(FileDescriptor socket) {
  const uint64_t id = ++last_id_;
  const absl::Status watched = Watch(epoll_.get(), EPOLL_CTL_ADD, socket.get(), id, EPOLLIN);
  if (!watched.ok()) return SetAccepting(false);
  connections_.emplace(id, std::make_unique<Connection>(id, std::move(socket), *this));
  connections_open_.store(connections_.size(), std::memory_order_relaxed);
}

void Server::Close(uint64_t id, const absl::Status& reason) {
  if (!absl::IsUnavailable(reason))
    Log(Severity::kWarning, "tcpstore_refused", {{"port", port_}, {"error", reason.ToString()}});
  const auto found = connections_.find(id);
  if (found->second->unfinished != 0) unfinished_.erase({found->second->unfinished_since, id});
  connections_.erase(found);
  connections_open_.store(connections_.size(), std::memory_order_relaxed);
  SetAccepting(true);
}

absl::Status Server::Read(Connection& connection) {
  // A session whose request has its memory reads at full speed.
  const bool sparing = memory_.spares() && connection.session.unfinished() == 0;
  const size_t room = sparing ? kReadBytesWhenShort : buffer_.size();
  const ssize_t bytes = recv(connection.socket.get(), buffer_.data(), room, 0);
  if (bytes > 0) return connection.session.Consume({buffer_.data(), static_cast<size_t>(bytes)});
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  return absl::UnavailableError("connection closed");
}

absl::Status Server::Write(Connection& connection) {
  for (;;) {
    const absl::string_view bytes = connection.session.pending();
    if (bytes.empty()) return absl::OkStatus();
    const ssize_t sent = send(connection.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      connection.session.OnSent(static_cast<size_t>(sent));
      if (static_cast<size_t>(sent) < bytes.size()) return absl::OkStatus();
    } else if (errno == EAGAIN) {
      return absl::OkStatus();
    } else if (errno != EINTR) {
      return absl::UnavailableError("connection lost");
    }
  }
}

void Server::Deliver(std::vector<Answer> answers) {
  // Sent replies make room, and requests that use the room may be answered at once.
  do {
    for (Answer& answer : answers) {
      auto found = connections_.find(answer.session);
      if (found == connections_.end()) continue;  // its client has gone
      Connection& connection = *found->second;
      const absl::Status status =
          connection.session.OnAnswer(answer.request, std::move(answer.results));
      if (status.ok())
        Touch(connection);
      else
        Close(connection.id, status);
    }
    SettleTouched();
    answers.clear();
    answers = mailbox_->TakeOwn(std::move(answers));
  } while (!answers.empty());
  spent_ = std::move(answers);
}

void Server::ContinueHeld() {
  for (const uint64_t id : std::exchange(held_, {})) {
    auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    Connection& connection = *found->second;
    connection.held = false;
    absl::Status status;
    if (connection.session.runnable()) status = connection.session.Continue();
    Conclude(connection, status);
  }
}

void Server::Conclude(Connection& connection, const absl::Status& status) {
  const uint64_t id = connection.id;
  Touch(connection);
  Deliver(mailbox_->TakeOwn(std::exchange(spent_, {})));
  if (status.ok() || !connections_.contains(id)) return;
  Close(id, status);
  Deliver(mailbox_->TakeOwn());  // its memory may have gone to another request
}

void Server::NoteShortage() {
  const uint64_t shortage = memory_.shortage();
  if (shortage == 0) return;
  const absl::Time now = options_.clock.Now();
  if (shortage != std::exchange(shortage_, shortage)) short_since_ = now;
  if (now - short_since_ < options_.slow_after || !memory_.NoteLogged(shortage)) return;
  Log(Severity::kWarning, "tcpstore_short_of_memory",
      {{"port", port_},
       {"bytes", memory_.taken()},
       {"limit", memory_.bytes_max()},
       {"waiting", memory_.waiting()},
       {"remedy", memory_.remedy()}});
}

void Server::DropSlow() {
  if (unfinished_.empty() || !memory_.short_of_memory()) return;
  const absl::Time late = options_.clock.Now() - options_.slow_after;
  while (!unfinished_.empty() && unfinished_.begin()->first <= late && memory_.short_of_memory()) {
    Close(unfinished_.begin()->second,
          absl::ResourceExhaustedError(
              absl::StrCat("a request had not come whole after ", DurationText(options_.slow_after),
                           ", while other connections waited for the memory that it holds")));
    Deliver(mailbox_->TakeOwn());
  }
}

void Server::NoteUnfinished(Connection& connection) {
  const uint64_t unfinished = connection.session.unfinished();
  if (unfinished == connection.unfinished) return;
  const absl::Time now = options_.clock.Now();
  if (connection.unfinished != 0) {
    unfinished_.erase({connection.unfinished_since, connection.id});
    connection.delayed = connection.unfinished;
    connection.delay = now - connection.unfinished_since;
  }
  connection.unfinished = unfinished;
  if (unfinished == 0) return;
  // A request that waited for memory keeps the delay from before.
  const bool goes_on = unfinished == connection.delayed;
  connection.unfinished_since = now - (goes_on ? connection.delay : absl::ZeroDuration());
  unfinished_.emplace(connection.unfinished_since, connection.id);
}

void Server::Touch(Connection& connection) {
  if (connection.touched) return;
  connection.touched = true;
  touched_.push_back(connection.id);
}

void Server::SettleTouched() {
  for (const uint64_t id : touched_) {
    auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    found->second->touched = false;
    const absl::Status status = Settle(*found->second);
    if (!status.ok()) Close(id, status);
  }
  touched_.clear();  // settling touches nobody
}

absl::Status Server::Settle(Connection& connection) {
  DP_RETURN_IF_ERROR(Write(connection));
  NoteUnfinished(connection);
  const Session& session = connection.session;
  const uint32_t events = (session.readable() ? uint32_t{EPOLLIN} : 0) |
                          (session.pending().empty() ? 0 : uint32_t{EPOLLOUT});
  if (events != connection.events) {
    connection.events = events;
    DP_RETURN_IF_ERROR(
        Watch(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), connection.id, events));
  }
  if (session.runnable() && !connection.held) {
    connection.held = true;
    held_.push_back(connection.id);
  }
  return absl::OkStatus();
}

}  // namespace dp::wire
