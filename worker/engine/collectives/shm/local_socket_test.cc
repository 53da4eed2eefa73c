#include "worker/engine/collectives/shm/local_socket.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

class LocalSocketTest : public ::testing::Test {
 protected:
  // Both ends of a connection.
  void Connect() {
    listener_ = *ListenLocally(name_, 1);
    caller_ = *ConnectLocally(name_);
    called_ = *AcceptLocally(listener_);
    ASSERT_TRUE(called_.valid());
  }

  const std::string name_ = absl::StrCat("dp-test-", EntropySeed());
  FileDescriptor listener_, caller_, called_;
};

TEST_F(LocalSocketTest, AMessageCarriesBytesAndFiles) {
  Connect();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  ASSERT_TRUE(SendMessage(caller_, "take this", {write_end.get()}).ok());
  write_end.Close();
  const auto message = ReceiveMessage(called_);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_EQ(message->bytes, "take this");
  ASSERT_EQ(message->files.size(), 1u);
  EXPECT_EQ(fcntl(message->files[0].get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(write(message->files[0].get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 1);
}

TEST_F(LocalSocketTest, MessagesKeepTheirBorders) {
  Connect();
  ASSERT_TRUE(SendMessage(caller_, "one", {}).ok());
  ASSERT_TRUE(SendMessage(caller_, "two", {}).ok());
  EXPECT_EQ(ReceiveMessage(called_)->bytes, "one");
  EXPECT_EQ(ReceiveMessage(called_)->bytes, "two");
}

TEST_F(LocalSocketTest, NothingBlocks) {
  listener_ = *ListenLocally(name_, 1);
  EXPECT_EQ(AcceptLocally(listener_).status().code(), absl::StatusCode::kNotFound);
  caller_ = *ConnectLocally(name_);
  EXPECT_EQ(ReceiveMessage(caller_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LocalSocketTest, ACallIsQueuedUntilItIsAccepted) {
  listener_ = *ListenLocally(name_, 1);
  caller_ = *ConnectLocally(name_);
  ASSERT_TRUE(SendMessage(caller_, "early", {}).ok());
  caller_.Close();
  called_ = *AcceptLocally(listener_);
  EXPECT_EQ(ReceiveMessage(called_)->bytes, "early");
  EXPECT_EQ(ReceiveMessage(called_).status().message(), "the other end is closed");
}

TEST_F(LocalSocketTest, NobodyListensOnceTheListenerIsClosed) {
  listener_ = *ListenLocally(name_, 1);
  listener_.Close();
  EXPECT_EQ(ConnectLocally(name_).status(), absl::UnavailableError("connect: Connection refused"));
}

TEST_F(LocalSocketTest, ANameIsTakenOnce) {
  listener_ = *ListenLocally(name_, 1);
  EXPECT_EQ(ListenLocally(name_, 1).status().message(), "bind: Address already in use");
}

TEST_F(LocalSocketTest, BothEndsSeeTheUserOfTheOther) {
  Connect();
  EXPECT_EQ(*UserAtOtherEnd(caller_), geteuid());
  EXPECT_EQ(*UserAtOtherEnd(called_), geteuid());
}

TEST_F(LocalSocketTest, SendingToAClosedEndIsAnErrorAndNoSignal) {
  Connect();
  called_.Close();
  EXPECT_EQ(SendMessage(caller_, "x", {}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dp::engine
