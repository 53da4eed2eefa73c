#include "tests/bench/store_load.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "store/wire/protocol.h"
#include "store/wire/socket.h"

namespace dp::bench {
namespace {

constexpr absl::Duration kHandshakePatience = absl::Seconds(30);
constexpr int kEventsPerTurn = 512;

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A greeting and a ping, with which clients since PyTorch 2.5 open a connection.
Exchange Handshake() {
  Exchange handshake{.reply_bytes = 4};
  wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kValidate, {{}, wire::kMagic}},
                      &handshake.request);
  wire::AppendRequest(wire::Dialect::kC, {wire::Verb::kPing, {{}, 1}}, &handshake.request);
  return handshake;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreLoad>> StoreLoad::Open(uint16_t port, size_t connections) {
  FileDescriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return wire::ErrnoStatus("epoll_create1");
  std::unique_ptr<StoreLoad> load(new StoreLoad(std::move(epoll)));
  for (size_t i = 0; i < connections; ++i) DP_RETURN_IF_ERROR(load->Connect(port));
  const Exchange handshake = Handshake();
  std::vector<bool> greeted(connections);
  DP_RETURN_IF_ERROR(load->Run(
      [&](size_t index) {
        const bool first = !greeted[index];
        greeted[index] = true;
        return first ? &handshake : nullptr;
      },
      kHandshakePatience));
  return load;
}

absl::Status StoreLoad::Connect(uint16_t port) {
  DP_ASSIGN_OR_RETURN(FileDescriptor socket, wire::Connect("127.0.0.1", port, kHandshakePatience));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connections_.size();
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0)
    return wire::ErrnoStatus("epoll_ctl");
  connections_.emplace_back().socket = std::move(socket);
  return absl::OkStatus();
}

absl::Status StoreLoad::Run(const Next& next, absl::Duration patience) {
  latencies_ns_.clear();
  for (size_t i = 0; i < connections_.size(); ++i) DP_RETURN_IF_ERROR(Begin(i, next));
  std::array<epoll_event, kEventsPerTurn> events;
  while (running_ > 0) {
    const int ready = epoll_wait(epoll_.get(), events.data(), events.size(),
                                 static_cast<int>(absl::ToInt64Milliseconds(patience)));
    if (ready < 0 && errno != EINTR) return wire::ErrnoStatus("epoll_wait");
    if (ready == 0) return absl::DeadlineExceededError("the server does not answer");
    for (int i = 0; i < ready; ++i) {
      if ((events[i].events & EPOLLOUT) != 0) DP_RETURN_IF_ERROR(Send(events[i].data.u64));
      if ((events[i].events & ~EPOLLOUT) != 0)
        DP_RETURN_IF_ERROR(Receive(events[i].data.u64, next));
    }
  }
  return absl::OkStatus();
}

absl::Status StoreLoad::Begin(size_t index, const Next& next) {
  Connection& connection = connections_[index];
  connection.exchange = next(index);
  if (connection.exchange == nullptr) return absl::OkStatus();
  ++running_;
  connection.sent = connection.answered = 0;
  connection.began_ns = NowNs();
  return Send(index);
}

absl::Status StoreLoad::Send(size_t index) {
  Connection& connection = connections_[index];
  const std::string& request = connection.exchange->request;
  while (connection.sent < request.size()) {
    const ssize_t sent = send(connection.socket.get(), request.data() + connection.sent,
                              request.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return Watch(index, /*blocked=*/true);
    if (sent < 0) return absl::UnavailableError("the server has closed a connection");
    connection.sent += static_cast<size_t>(sent);
  }
  return Watch(index, /*blocked=*/false);
}

absl::Status StoreLoad::Watch(size_t index, bool blocked) {
  Connection& connection = connections_[index];
  if (connection.blocked == blocked) return absl::OkStatus();
  connection.blocked = blocked;
  epoll_event event{};
  event.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = index;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event) == 0)
    return absl::OkStatus();
  return wire::ErrnoStatus("epoll_ctl");
}

absl::Status StoreLoad::Receive(size_t index, const Next& next) {
  static char bytes[size_t{256} << 10];
  Connection& connection = connections_[index];
  const ssize_t got = recv(connection.socket.get(), bytes, sizeof(bytes), 0);
  if (got < 0 && errno == EAGAIN) return absl::OkStatus();
  if (got <= 0) return absl::UnavailableError("the server has closed a connection");
  connection.answered += static_cast<size_t>(got);
  if (connection.exchange == nullptr || connection.answered > connection.exchange->reply_bytes)
    return absl::InternalError("the server has answered more than was asked");
  if (connection.answered < connection.exchange->reply_bytes) return absl::OkStatus();
  latencies_ns_.push_back(NowNs() - connection.began_ns);
  --running_;
  return Begin(index, next);
}

}  // namespace dp::bench
