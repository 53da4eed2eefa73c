#include "worker/engine/collectives/nccl/nccl_ras.h"

#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/wire/socket.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;

// Answers one connection line by line, and closes it after the report.
class FakeRas {
 public:
  explicit FakeRas(bool knows_formats) : listener_(*wire::Listen("127.0.0.1", 0)) {
    serving_ = std::jthread([this, knows_formats] {
      if (!wire::AwaitSocket(listener_.get(), POLLIN, absl::Seconds(60)).ok()) return;
      const FileDescriptor client(accept(listener_.get(), nullptr, nullptr));
      for (std::string line; !(line = Line(client.get())).empty();) {
        if (line == "STATUS") return Say(client.get(), knows_formats ? "{}\n" : "Errors\nDEAD\n");
        if (line.rfind("CLIENT PROTOCOL", 0) == 0) {
          Say(client.get(), "SERVER PROTOCOL 2\n");
        } else {
          const bool refused = line.rfind("SET", 0) == 0 && !knows_formats;
          Say(client.get(), refused ? "ERROR: Unknown command\n" : "OK\n");
        }
      }
    });
  }

  HostPort address() const { return {"127.0.0.1", absl::StrCat(*wire::PortOf(listener_.get()))}; }

 private:
  static std::string Line(int socket) {
    std::string line;
    for (char c = 0; recv(socket, &c, 1, 0) == 1 && c != '\n';) line += c;
    return line;
  }
  static void Say(int socket, const std::string& text) {
    (void)!send(socket, text.data(), text.size(), MSG_NOSIGNAL);
  }

  const FileDescriptor listener_;
  std::jthread serving_;
};

TEST(NcclRasTest, TheAddressIsTheEnvironmentsOrNcclsDefault) {
  EXPECT_EQ(RasAddress("")->host, "localhost");
  EXPECT_EQ(RasAddress("")->port, "28028");
  EXPECT_EQ(RasAddress("10.1.2.3:9")->port, "9");
  EXPECT_FALSE(RasAddress("nothing").ok());
}

TEST(NcclRasTest, ItsReportIsReadToTheEnd) {
  FakeRas ras(/*knows_formats=*/true);
  EXPECT_EQ(AskRas(ras.address(), absl::Seconds(60)).value(), "{}\n");
}

TEST(NcclRasTest, AnOlderOneAnswersInText) {
  FakeRas ras(/*knows_formats=*/false);
  EXPECT_EQ(AskRas(ras.address(), absl::Seconds(60)).value(), "Errors\nDEAD\n");
}

TEST(NcclRasTest, OneThatDoesNotListenIsUnavailable) {
  HostPort address;
  {
    const FileDescriptor closed = *wire::Listen("127.0.0.1", 0);
    address = {"127.0.0.1", absl::StrCat(*wire::PortOf(closed.get()))};
  }
  EXPECT_EQ(AskRas(address, absl::Seconds(60)).status().code(), absl::StatusCode::kUnavailable);
}

TEST(NcclRasTest, OneThatAnswersNothingIsNotWaitedForForEver) {
  const FileDescriptor silent = *wire::Listen("127.0.0.1", 0);
  const HostPort address{"127.0.0.1", absl::StrCat(*wire::PortOf(silent.get()))};
  EXPECT_EQ(AskRas(address, absl::Milliseconds(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace dp::engine
