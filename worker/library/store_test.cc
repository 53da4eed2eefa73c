#include "dp/store.h"

#include <filesystem>
#include <thread>

#include "base/testing/scratch_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/thrown.h"

namespace dp::distributed {
namespace {

using library::ErrorOf;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TcpStore Serve() { return TcpStore({.host = "127.0.0.1", .is_master = true}); }

// A store of each kind, empty.
struct Kind {
  const char* name;
  Store (*open)();
};
class PublicStoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  Store store_ = GetParam().open();
};

Store OpenInFile() {
  static ScratchDir scratch;
  static int number = 0;
  return FileStore(scratch.path() / std::to_string(++number), 1);
}

INSTANTIATE_TEST_SUITE_P(
    , PublicStoreTest,
    ::testing::Values(Kind{"Hash", []() -> Store { return HashStore(); }}, Kind{"File", OpenInFile},
                      Kind{"Tcp", []() -> Store { return Serve(); }},
                      Kind{"Prefix", []() -> Store { return PrefixStore("job", HashStore()); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(PublicStoreTest, ValuesAreSetAppendedComparedAndDeleted) {
  store_.set("k", "one");
  store_.append("k", ", two");
  EXPECT_EQ(store_.get("k"), "one, two");
  EXPECT_EQ(store_.compare_set("k", "other", "three"), "one, two");
  EXPECT_EQ(store_.compare_set("k", "one, two", "three"), "three");
  EXPECT_TRUE(store_.delete_key("k"));
  EXPECT_FALSE(store_.delete_key("k"));
}

TEST_P(PublicStoreTest, SeveralKeysAtOnce) {
  const std::vector<std::pair<std::string, std::string>> pairs = {{"a", "1"}, {"b", "2"}};
  const std::vector<std::string> keys = {"b", "a"}, unknown = {"a", "c"};
  store_.multi_set(pairs);
  EXPECT_THAT(store_.multi_get(keys), ElementsAre("2", "1"));
  store_.wait(keys);
  EXPECT_TRUE(store_.check(keys));
  EXPECT_FALSE(store_.check(unknown));
  EXPECT_EQ(store_.num_keys(), 2);
  EXPECT_THAT(store_.list_keys(), ElementsAre("a", "b"));
}

TEST_P(PublicStoreTest, NumbersAreAdded) {
  EXPECT_EQ(store_.add("n", 2), 2);
  EXPECT_EQ(store_.add("n", -5), -3);
  store_.set("word", "x");
  EXPECT_EQ(ErrorOf([&] { store_.add("word", 1); }).kind(), ErrorKind::kInvalidArgument);
}

TEST_P(PublicStoreTest, QueuesAreFirstInFirstOut) {
  EXPECT_EQ(store_.queue_push("q", "one"), 1);
  EXPECT_EQ(store_.queue_push("q", "two"), 2);
  EXPECT_EQ(store_.queue_pop("q"), "one");
  EXPECT_EQ(store_.queue_len("q"), 1);
}

TEST_P(PublicStoreTest, AWaitEndsWhenTheKeyIsThereAndAtItsTimeout) {
  const std::vector<std::string> late = {"late"}, never = {"never"};
  std::jthread setter([store = store_] { store.set("late", "v"); });
  EXPECT_EQ(store_.get("late"), "v");
  const DistError error = ErrorOf([&] { store_.wait(never, milliseconds(20)); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("never"));
  store_.set_timeout(milliseconds(20));
  EXPECT_THAT(ErrorOf([&] { store_.get("never"); }).what(), HasSubstr("still missing after 20ms"));
  EXPECT_EQ(ErrorOf([&] { store_.queue_pop("never"); }).kind(), ErrorKind::kTimeout);
}

TEST_P(PublicStoreTest, CopiesNameTheSameStoreAndKeepItAlive) {
  std::optional<Store> first = store_;
  const Store second = *first;
  first->set("k", "v");
  first.reset();
  EXPECT_EQ(second.get("k"), "v");
  EXPECT_EQ(second.timeout(), Store::kTimeout);
}

TEST(PrefixStoreTest, SeesItsOwnKeysOnlyAndTakesTheTimeout) {
  HashStore below;
  below.set_timeout(milliseconds(7));
  const PrefixStore a("a", below), b("b", below);
  a.set("k", "of a");
  b.set("k", "of b");
  EXPECT_EQ(a.get("k"), "of a");
  EXPECT_EQ(below.get("b/k"), "of b");
  EXPECT_THAT(a.list_keys(), ElementsAre("k"));
  EXPECT_EQ(a.timeout(), milliseconds(7));
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
  EXPECT_EQ(ErrorOf([&] { client.set("k", "v"); }).kind(), ErrorKind::kUnreachable);
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
