#include "worker/agent/spool/log_spool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/exit_record.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

const absl::Time kSpoolJobAt = absl::FromUnixSeconds(100);

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class LogSpoolTest : public testing::Test {
 protected:
  LogSpoolTest() { EXPECT_TRUE(spool_.Create({kSpoolJobAt}).ok()); }
  void Write(v1::LogStream stream, const std::string& text) {
    std::ofstream(spool_.path(stream), std::ios::app) << text;
  }

  TemporaryDirectory directory_;
  LogSpool spool_{directory_.path(), {JobId(7), Generation(2), 3}};
};

TEST_F(LogSpoolTest, FilesAreNamedAfterJobGenerationAndRank) {
  EXPECT_EQ(spool_.path(v1::LOG_STREAM_STDERR), directory_.path() + "/spool/7/2/3.err");
}

TEST_F(LogSpoolTest, LastLinesAreThoseOfStandardErrorAfterThoseOfStandardOutput) {
  Write(v1::LOG_STREAM_STDOUT, "step 1\nstep 2\n");
  Write(v1::LOG_STREAM_STDERR, "out of memory\n");
  EXPECT_THAT(spool_.LastLines(), ElementsAre("step 1", "step 2", "out of memory"));
}

TEST_F(LogSpoolTest, StandardErrorGoesBeforeStandardOutputWhereThereIsNoRoomForBoth) {
  Write(v1::LOG_STREAM_STDOUT, "step 1\n");
  for (int i = 1; i <= 30; ++i) Write(v1::LOG_STREAM_STDERR, absl::StrCat("error ", i, "\n"));
  EXPECT_THAT(spool_.LastLines(), SizeIs(kLastLinesMax));
  EXPECT_EQ(spool_.LastLines().front(), "error 11");
}

TEST_F(LogSpoolTest, AHoleInFrontIsNoPartOfALine) {
  Write(v1::LOG_STREAM_STDERR, std::string(2000, '\0') + "why\n");
  EXPECT_THAT(spool_.LastLines(), ElementsAre("why"));
}

TEST_F(LogSpoolTest, AHugeLineIsCut) {
  Write(v1::LOG_STREAM_STDERR, std::string(1 << 20, 'x'));
  EXPECT_THAT(spool_.LastLines(), ElementsAre(SizeIs(kLastLineBytesMax)));
}

TEST_F(LogSpoolTest, LinesAreAppendedBehindThoseOfTheRank) {
  Write(v1::LOG_STREAM_METRICS, "step 1\n");
  EXPECT_EQ(spool_.Append(v1::LOG_STREAM_METRICS, "gpu 40\n"), absl::OkStatus());
  std::ifstream file(spool_.path(v1::LOG_STREAM_METRICS));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "step 1\ngpu 40\n");
}

TEST_F(LogSpoolTest, AFileThatCannotBeAppendedToIsNamedWithTheReason) {
  spool_.Remove();
  const absl::Status status = spool_.Append(v1::LOG_STREAM_METRICS, "gpu 40\n");
  EXPECT_THAT(std::string(status.message()), HasSubstr("/spool/7/2/3.metrics: No such file"));
}

TEST_F(LogSpoolTest, RemovingTheLastRankRemovesItsDirectories) {
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

// Whoever could plant such a link would have a daemon of root remove the files of others.
TEST_F(LogSpoolTest, NoLinkLeadsRemovalOrCreationElsewhere) {
  const std::string elsewhere = directory_.path() + "/elsewhere";
  const LogSpool victim(elsewhere, {JobId(7), Generation(2), 3});
  ASSERT_TRUE(std::filesystem::create_directory(elsewhere));
  ASSERT_TRUE(victim.Create({kSpoolJobAt}).ok());
  std::filesystem::create_directory(victim.credential_dir());
  std::ofstream(victim.credential_dir() + "/token") << "token";
  for (const std::string planted :
       {"/spool/7/2/3.credential", "/spool/7/2", "/spool/7", "/spool"}) {
    std::filesystem::remove_all(directory_.path() + planted);
    std::filesystem::create_symlink(elsewhere + planted, directory_.path() + planted);
    spool_.Remove();
    EXPECT_TRUE(std::filesystem::exists(victim.path(v1::LOG_STREAM_STDOUT))) << planted;
    EXPECT_TRUE(std::filesystem::exists(victim.credential_dir() + "/token")) << planted;
    if (planted.ends_with(".credential")) {
      ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
      continue;
    }
    std::ofstream(victim.path(v1::LOG_STREAM_STDOUT)) << "output";
    EXPECT_THAT(std::string(spool_.Create({kSpoolJobAt}).message()),
                HasSubstr("spool " + directory_.path() + planted + ": Not a directory"));
    EXPECT_GT(std::filesystem::file_size(victim.path(v1::LOG_STREAM_STDOUT)), 0u) << planted;
    EXPECT_FALSE(spool_.KeepSecrets({"hf_abc"}).ok());
    std::filesystem::remove(directory_.path() + planted);
    ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  }
  std::filesystem::remove_all(directory_.path() + "/spool");
  std::filesystem::create_symlink(elsewhere + "/spool", directory_.path() + "/spool");
  EXPECT_THAT(std::string(CheckSpoolRoom(directory_.path()).message()), HasSubstr("/spool: "));
}

TEST_F(LogSpoolTest, RemovingARankLeavesTheOthers) {
  const LogSpool other(directory_.path(), {JobId(7), Generation(2), 4});
  ASSERT_TRUE(other.Create({kSpoolJobAt}).ok());
  spool_.Remove();
  EXPECT_TRUE(std::filesystem::exists(other.path(v1::LOG_STREAM_STDOUT)));
}

TEST_F(LogSpoolTest, TheNextLifeOfTheDaemonFindsWhatThereIs) {
  std::ofstream(directory_.path() + "/spool/7/2/notes.job") << "x";
  EXPECT_THAT(LogSpool::Find(directory_.path()), ElementsAre(RankKey{JobId(7), Generation(2), 3}));
  EXPECT_EQ(spool_.job_submitted_at(), kSpoolJobAt);
  spool_.Remove();
  EXPECT_EQ(spool_.job_submitted_at(), std::nullopt);
  EXPECT_THAT(LogSpool::Find(directory_.path()), testing::IsEmpty());
}

class SpoolOfSecretsTest : public LogSpoolTest {
 protected:
  SpoolOfSecretsTest() { EXPECT_TRUE(spool_.KeepSecrets({"hf_abcdef", "two\nlines\n"}).ok()); }
  std::string Hidden(std::string text) const {
    spool_.Mask().Hide(&text, {});
    return text;
  }

  const std::string file_ = directory_.path() + "/spool/7/2/3.secrets";
};

TEST_F(SpoolOfSecretsTest, TheNextDaemonKnowsWhatToHide) {
  using std::filesystem::perms;
  EXPECT_EQ(Hidden("hf_abcdef two lines"), "********* two *****");
  EXPECT_EQ(std::filesystem::status(file_).permissions(), perms::owner_read | perms::owner_write);
}

TEST_F(SpoolOfSecretsTest, TheyGoWithTheSpool) {
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

TEST_F(SpoolOfSecretsTest, TheyAreOfThisRankOnly) {
  ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  ASSERT_TRUE(spool_.KeepSecrets({}).ok());
  EXPECT_EQ(Hidden("hf_abcdef"), "hf_abcdef");
}

TEST_F(SpoolOfSecretsTest, DamagedOnesHideEverything) {
  std::ifstream file(file_, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(file), {});
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(file_, std::ios::binary) << whole.substr(0, size);
    const bool cut_between = whole.substr(size).starts_with("10\ntwo");
    EXPECT_EQ(Hidden("loss"), cut_between ? "loss" : "****") << size;
  }
}

TEST_F(SpoolOfSecretsTest, LastLinesHideThem) {
  Write(v1::LOG_STREAM_STDOUT, "login hf_abcdef\n");
  Write(v1::LOG_STREAM_STDERR, "bad hf_abcdef\nhf_abc");
  EXPECT_THAT(spool_.LastLines(), ElementsAre("login *********", "bad *********", "******"));
}

// Only the end of a long output is read.
TEST_F(SpoolOfSecretsTest, LastLinesHideAPartOfASecretInFront) {
  const size_t tail = kLastLinesMax * kLastLineBytesMax;
  Write(v1::LOG_STREAM_STDOUT, "hf_abcdef" + std::string(tail - 5, 'y'));
  EXPECT_EQ(spool_.LastLines().front().substr(0, 6), "*****y");
}

TEST_F(LogSpoolTest, ItKnowsWhoseItIs) {
  const SpoolOwner owner{kSpoolJobAt, {5, Incarnation(~uint64_t{0})}};
  ASSERT_TRUE(spool_.Create(owner).ok());
  EXPECT_EQ(spool_.owner(), owner);
}

TEST_F(LogSpoolTest, ASpoolOfAnEarlierReleaseDoesNotSayWhichDaemonMadeIt) {
  std::ofstream(directory_.path() + "/spool/7/2/3.job") << absl::ToUnixNanos(kSpoolJobAt);
  EXPECT_EQ(spool_.owner(), (SpoolOwner{kSpoolJobAt}));
  EXPECT_EQ(spool_.job_submitted_at(), kSpoolJobAt);
}

// Every user may give files to themselves.
class GivenSpoolTest : public LogSpoolTest {
 protected:
  struct stat StatOf(const std::string& path) const {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
    return info;
  }
  mode_t ModeOf(const std::string& path) const { return StatOf(path).st_mode & 07777; }

  Account user_{.name = "ann", .uid = geteuid(), .gid = getegid()};
};

TEST_F(GivenSpoolTest, OthersPassThroughItsDirectoriesButReadNothing) {
  std::filesystem::create_directory(spool_.credential_dir());
  std::ofstream(spool_.credential_dir() + "/token") << "secret";
  std::filesystem::permissions(spool_.credential_dir() + "/token", std::filesystem::perms(0600));
  for (const char* dir : {"/spool", "/spool/7"}) {
    std::filesystem::permissions(directory_.path() + dir, std::filesystem::perms(0700));
  }
  for (const char* dir : {"/spool/7/2", "/spool/7/2/3.credential"}) {
    std::filesystem::permissions(directory_.path() + dir, std::filesystem::perms(0755));
  }
  ASSERT_EQ(spool_.GiveTo(user_), absl::OkStatus());
  for (const char* dir : {"/spool", "/spool/7", "/spool/7/2", "/spool/7/2/3.credential"}) {
    EXPECT_EQ(ModeOf(directory_.path() + dir), 0711u) << dir;
  }
  for (const char* file :
       {"3.out", "3.err", "3.metrics", "3.error", "3.job", "3.credential/token"}) {
    EXPECT_EQ(ModeOf(directory_.path() + "/spool/7/2/" + file), 0600u) << file;
  }
}

TEST_F(GivenSpoolTest, TheUserGetsTheirFilesAndNotThoseOfTheDaemon) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  user_ = {.name = "ann", .uid = 12345, .gid = 12346};
  ASSERT_EQ(spool_.GiveTo(user_), absl::OkStatus());
  for (const char* file : {"3.out", "3.err", "3.metrics", "3.error"}) {
    const struct stat info = StatOf(directory_.path() + "/spool/7/2/" + file);
    EXPECT_EQ(info.st_uid, 12345u) << file;
    EXPECT_EQ(info.st_gid, 12346u) << file;
  }
  EXPECT_EQ(StatOf(directory_.path() + "/spool/7/2/3.job").st_uid, 0u);
  EXPECT_EQ(StatOf(directory_.path() + "/spool/7/2").st_uid, 0u);
}

TEST_F(GivenSpoolTest, ALinkInPlaceOfAFileIsNotGivenAway) {
  const std::string secret = directory_.path() + "/secret";
  std::ofstream(secret) << "secret";
  const std::string path = spool_.path(v1::LOG_STREAM_STDERR);
  std::filesystem::remove(path);
  std::filesystem::create_hard_link(secret, path);
  EXPECT_THAT(std::string(spool_.GiveTo(user_).message()), HasSubstr("is not the file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(secret, path);
  EXPECT_THAT(std::string(spool_.GiveTo(user_).message()), HasSubstr("symbolic links"));
}

TEST_F(GivenSpoolTest, TheErrorFileGoesWithTheSpool) {
  ASSERT_EQ(spool_.GiveTo(user_), absl::OkStatus());
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

TEST_F(LogSpoolTest, TheRecordOfTheExitGoesWithTheSpoolAndIsOfThisRank) {
  WriteExitRecord(spool_.exit_file(), {});
  ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  EXPECT_EQ(ReadExitRecord(spool_.exit_file()), std::nullopt);
  WriteExitRecord(spool_.exit_file(), {});
  spool_.Remove();
  EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/spool/7"));
}

TEST_F(LogSpoolTest, MakingItAgainLeavesTheOldFilesToWhoReadsThem) {
  Write(v1::LOG_STREAM_STDOUT, "old\n");
  std::ifstream reader(spool_.path(v1::LOG_STREAM_STDOUT));
  ASSERT_TRUE(spool_.Create({kSpoolJobAt}).ok());
  std::string line;
  EXPECT_TRUE(std::getline(reader, line));
  EXPECT_THAT(spool_.LastLines(), testing::IsEmpty());
}

TEST_F(LogSpoolTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(directory_.path() + "/file").close();
  const LogSpool spool(directory_.path() + "/file", {JobId(1), Generation(1), 0});
  EXPECT_THAT(std::string(spool.Create({kSpoolJobAt}).message()),
              HasSubstr("/file: Not a directory"));
}

}  // namespace
}  // namespace dp::worker
