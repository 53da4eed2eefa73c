// Our client against PyTorch's own servers, by the contract of every store. pytorch_server_test.py
// hosts the servers and runs this. DP_PYTORCH_SERVERS is a loopback port that answers each
// connection with the port of a new, empty server.

#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/check.h"
#include "store/testing/store_conformance.h"
#include "store/wire/socket.h"
#include "store/wire/tcp_store.h"

namespace dp::wire {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

uint16_t NewServer() {
  const char* port = std::getenv("DP_PYTORCH_SERVERS");
  DP_CHECK(port != nullptr);
  const auto socket = Connect("127.0.0.1", static_cast<uint16_t>(std::atoi(port)), kPatience);
  DP_CHECK(socket.ok());
  std::string answer;
  for (char byte = 0; byte != '\n'; answer += byte) {
    DP_CHECK(AwaitSocket(socket->get(), POLLIN, kPatience).ok());
    DP_CHECK(recv(socket->get(), &byte, 1, 0) == 1);
  }
  return static_cast<uint16_t>(std::atoi(answer.c_str()));
}

OpenStore Client(Dialect dialect) {
  return [dialect]() -> std::unique_ptr<Store> {
    auto store =
        TcpStore::Open({.server = {.host = "127.0.0.1", .port = NewServer(), .dialect = dialect}});
    DP_CHECK(store.ok());
    return *std::move(store);
  };
}

// PyTorch 1.13 and 2.0.
INSTANTIATE_TEST_SUITE_P(A, StoreConformance, ::testing::Values(Client(Dialect::kA)));
// 2.2 and later: the legacy server and libuv's server, which has queues.
INSTANTIATE_TEST_SUITE_P(C, StoreConformance, ::testing::Values(Client(Dialect::kC)));
INSTANTIATE_TEST_SUITE_P(C, StoreAppendConformance, ::testing::Values(Client(Dialect::kC)));
INSTANTIATE_TEST_SUITE_P(C, StoreLaterVerbsConformance, ::testing::Values(Client(Dialect::kC)));

}  // namespace
}  // namespace dp::wire
