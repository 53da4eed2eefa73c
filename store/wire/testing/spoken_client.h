#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "gtest/gtest.h"
#include "store/wire/fields.h"
#include "store/wire/protocol.h"
#include "store/wire/socket.h"

namespace dp::wire {

inline constexpr absl::Duration kWirePatience =
    absl::Seconds(60);  // only a failing test waits for it

// A client that writes the protocol's bytes itself, one by one if need be. Not thread-safe.
class SpokenClient {
 public:
  SpokenClient(Dialect dialect, uint16_t port, const std::string& host = "127.0.0.1")
      : dialect_(dialect) {
    auto socket = Connect(host, port, kWirePatience);
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return;
    socket_ = *std::move(socket);
    if (dialect == Dialect::kC) Say(std::string("\0\xce\xf7\x85\x3c", 5));
  }

  void Ask(Verb verb, std::vector<std::string> strings = {}, int64_t number = 0) {
    std::string bytes;
    AppendRequest(dialect_, {verb, {std::move(strings), number}}, &bytes);
    Say(bytes);
  }
  void Say(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return;  // the server has closed, as some tests expect
      if (sent > 0)
        bytes.remove_prefix(static_cast<size_t>(sent));
      else
        (void)AwaitSocket(socket_.get(), POLLOUT,
                          kWirePatience);  // the next send reports failures
    }
  }
  Fields Reply(Verb verb, uint64_t count = 0) {
    FieldParser parser(Limits{});
    parser.Begin(ReplyShape(verb), count);
    for (;;) {
      absl::string_view input = heard_;
      const bool complete = *parser.Take(&input);
      heard_ = std::string(input);
      if (complete) return parser.Finish();
      if (!Hear()) return {{"(closed)"}, -1};
    }
  }
  // Whether the server closes the connection without another byte.
  bool Closed() { return heard_.empty() && !Hear(); }

  std::string Get(const std::string& key) {
    Ask(Verb::kGet, {key});
    return Reply(Verb::kGet).strings[0];
  }

 private:
  // Returns false at the end of the stream.
  bool Hear() {
    char bytes[65536];
    EXPECT_TRUE(AwaitSocket(socket_.get(), POLLIN, kWirePatience).ok());
    const ssize_t got = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) return false;
    heard_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  const Dialect dialect_;
  FileDescriptor socket_;
  std::string heard_;
};

}  // namespace dp::wire
