#include "dp/store.h"

#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "store/wire/socket.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

TcpStore Serve() { return TcpStore({.host = "127.0.0.1", .is_master = true}); }

TEST(PrefixStoreTest, TakesTheTimeoutOfTheStoreBelow) {
  HashStore below;
  below.set_timeout(milliseconds(7));
  EXPECT_EQ(PrefixStore("a", below).timeout(), milliseconds(7));
}

TEST(TcpStoreTest, ClientsShareTheServersKeys) {
  const TcpStore master = Serve();
  const TcpStore client({.host = "127.0.0.1", .port = master.port()});
  master.set("k", "v");
  EXPECT_EQ(client.get("k"), "v");
  EXPECT_EQ(client.port(), master.port());
}

TEST(TcpStoreTest, AClientWaitsForTheServer) {
  std::optional<TcpStore> first = Serve();
  const uint16_t port = first->port();
  first.reset();
  std::optional<TcpStore> master;
  std::jthread late([&] {
    master = TcpStore({.host = "127.0.0.1", .port = port, .is_master = true});
    master->set("k", "v");
  });
  EXPECT_EQ(TcpStore({.host = "127.0.0.1", .port = port}).get("k"), "v");
}

TEST(TcpStoreTest, AClientSaysThatNobodyServes) {
  std::optional<TcpStore> gone = Serve();
  const uint16_t port = gone->port();
  gone.reset();
  const DistError error =
      ErrorOf([&] { TcpStore({.host = "127.0.0.1", .port = port, .timeout = milliseconds(50)}); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("no store at 127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(error.what(), HasSubstr("check that rank 0 runs"));
}

// It counts as one try, whatever dialects a server may speak.
TEST(TcpStoreTest, AServerThatNeverAnswersIsAskedOnceWithinTheTimeout) {
  const auto silent = wire::Listen("127.0.0.1", 0);
  ASSERT_TRUE(silent.ok()) << silent.status();
  const uint16_t port = *wire::PortOf(silent->get());
  const DistError error =
      ErrorOf([&] { TcpStore({.host = "127.0.0.1", .port = port, .timeout = milliseconds(300)}); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("no store at 127.0.0.1:" + std::to_string(port)));
  int tries = 0;
  for (pollfd asked{silent->get(), POLLIN, 0}; poll(&asked, 1, 0) == 1; ++tries)
    FileDescriptor(accept(silent->get(), nullptr, nullptr));
  EXPECT_EQ(tries, 1);
}

TEST(TcpStoreTest, ATakenPortIsNamedWithTheRemedy) {
  const TcpStore first = Serve();
  const DistError error =
      ErrorOf([&] { TcpStore({.host = "127.0.0.1", .port = first.port(), .is_master = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(error.what(), HasSubstr("is taken by another program; choose another port"));
}

TEST(TcpStoreTest, ALostServerIsUnreachable) {
  std::optional<TcpStore> master = Serve();
  const TcpStore client({.host = "127.0.0.1", .port = master->port()});
  master.reset();
  const DistError error = ErrorOf([&] { client.set("k", "v"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnreachable);
  EXPECT_THAT(error.what(), HasSubstr("the store at 127.0.0.1:" + std::to_string(client.port()) +
                                      " has closed the connection"));
}

TEST(TcpStoreTest, AnUnknownHostIsTheCallersFault) {
  const DistError error = ErrorOf([] { TcpStore({.host = "no such host", .port = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
}

TEST(FileStoreTest, ADirectoryThatIsMissingAndAFileOfAnEarlierRunAreErrors) {
  const ScratchDir scratch;
  const DistError missing = ErrorOf([&] { FileStore(scratch.path() / "no/file", 1); });
  EXPECT_EQ(missing.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(missing.what(), HasSubstr("no such directory"));
  const std::string path = scratch.path() / "file";
  { const FileStore left_by_its_only_member(path, 2); }
  const DistError stale = ErrorOf([&] { FileStore(path, 2); });
  EXPECT_EQ(stale.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(stale.what(), HasSubstr("it is of an earlier run; remove it"));
}

TEST(FileStoreTest, TheLastMemberRemovesTheFile) {
  const ScratchDir scratch;
  const std::string path = scratch.path() / "file";
  {
    const FileStore one(path, 2), two(path, 2);
    one.set("k", "v");
    EXPECT_EQ(two.get("k"), "v");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dp::distributed
