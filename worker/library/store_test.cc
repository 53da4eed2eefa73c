#include "dp/store.h"

#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "base/testing/scratch_dir.h"
#include "dp/distributed.h"
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

TEST(StoreTest, AHandleThatWasMovedFromSaysSo) {
  HashStore from;
  const HashStore to = std::move(from);
  to.set("k", "v");
  const std::vector<std::string> keys = {"k"};
  const std::vector<std::pair<std::string, std::string>> pairs;
  const std::vector<std::function<void()>> calls = {
      [&] { from.set("k", "v"); },
      [&] { from.multi_set(pairs); },
      [&] { from.append("k", "v"); },
      [&] { from.get("k"); },
      [&] { from.multi_get(keys); },
      [&] { from.wait(keys); },
      [&] { from.check(keys); },
      [&] { from.add("k", 1); },
      [&] { from.compare_set("k", "", "v"); },
      [&] { from.delete_key("k"); },
      [&] { from.num_keys(); },
      [&] { from.list_keys(); },
      [&] { from.queue_push("k", "v"); },
      [&] { from.queue_pop("k"); },
      [&] { from.queue_len("k"); },
      [&] { PrefixStore("a", from); },
      [&] { ProcessGroup({.store = from, .world_size = 1, .rank = 0}); }};
  for (const auto& call : calls) {
    const DistError error = ErrorOf(call);
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("the Store was moved from"));
  }
  from = to;
  EXPECT_EQ(from.get("k"), "v");
}

TEST(TcpStoreTest, AnEmptyHostAndPort0OfAClientAreErrors) {
  const auto why = [](const TcpStoreOptions& options) {
    const DistError error = ErrorOf([&] { TcpStore{options}; });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_THAT(why({.is_master = true}), HasSubstr("host is empty; give the address to serve at"));
  EXPECT_THAT(why({.port = 1}), HasSubstr("host is empty; give the name or the address"));
  EXPECT_THAT(why({.host = "127.0.0.1"}), HasSubstr("port is 0; give the port of the server"));
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

// The server sends each client these bytes at once and reads nothing.
DistError ErrorOfServerThatSays(const std::string& greeting) {
  const auto listener = wire::Listen("127.0.0.1", 0);
  EXPECT_TRUE(listener.ok()) << listener.status();
  std::jthread server([&](const std::stop_token& stop) {
    std::vector<FileDescriptor> clients;
    while (!stop.stop_requested()) {
      pollfd asked{listener->get(), POLLIN, 0};
      if (poll(&asked, 1, 10) != 1) continue;
      clients.emplace_back(accept(listener->get(), nullptr, nullptr));
      (void)send(clients.back().get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    }
  });
  return ErrorOf([&] { TcpStore({.host = "127.0.0.1", .port = *wire::PortOf(listener->get())}); });
}

TEST(TcpStoreTest, AServerThatIsNoStoreIsUnreachableWithItsAddress) {
  const std::string one_more("\0\0\0\0\0\0\0\0\0", 9);
  for (const std::string& greeting : {std::string("HTTP/1.1 400 Bad Request"), one_more}) {
    const DistError error = ErrorOfServerThatSays(greeting);
    EXPECT_EQ(error.kind(), ErrorKind::kUnreachable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("store at 127.0.0.1:"));
    EXPECT_THAT(error.what(), HasSubstr("does not answer as expected: "));
    EXPECT_THAT(error.what(), HasSubstr("; check the port, where another server may listen"));
  }
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

TEST(FileStoreTest, ItHasAKnownNumberOfMembers) {
  const ScratchDir scratch;
  const std::string path = scratch.path() / "file";
  for (const int members : {-1, 0, 100'001}) {
    const DistError error = ErrorOf([&] { FileStore(path, members); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("with " + std::to_string(members) +
                                        " members; give their number, 1 to 100000"));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(FileStoreTest, ADirectoryIsNoFile) {
  const ScratchDir scratch;
  const DistError error = ErrorOf([&] { FileStore(scratch.path(), 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("is a directory; give the path of a file in it"));
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
