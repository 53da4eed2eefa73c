#include "worker/agent/processes/spawn.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/processes/guard_protocol.h"
#include "worker/agent/processes/process_tree.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;

// A real guard without the runner that usually talks to it.
class SpawnTest : public testing::Test {
 protected:
  ~SpawnTest() override {
    if (guard_.pid <= 0) return;
    kill(guard_.pid, SIGKILL);
    waitpid(guard_.pid, nullptr, 0);
  }

  absl::Status Spawn(std::vector<std::string> arguments,
                     const Confinement& confinement = {.descriptors = 1024, .cgroups = {}},
                     bool no_core = false) {
    arguments.insert(arguments.begin(), program_);
    auto spawned = SpawnGuard(DP_GUARD, confinement,
                              {.argv = std::move(arguments),
                               .environment = environment_,
                               .stdout_path = directory_.path() + "/out",
                               .stderr_path = directory_.path() + "/err",
                               .working_dir = working_dir_,
                               .run_as = run_as_,
                               .no_core = no_core,
                               .mounts = mounts_,
                               .allowed_programs = allowed_});
    if (spawned.ok()) guard_ = *std::move(spawned);
    return spawned.status();
  }

  // The guard's next message; {0, 0} once the guard has exited.
  GuardNews Next() {
    GuardNews news{};
    DP_CHECK(recv(guard_.socket.get(), &news, sizeof(news), 0) >= 0);
    return news;
  }
  // The rank's output, once its guard has exited.
  std::string Output(const std::string& stream = "/out") {
    while (Next().what != GuardNews::What{}) {
    }
    std::ifstream file(directory_.path() + stream);
    return (std::stringstream() << file.rdbuf()).str();
  }

  TemporaryDirectory directory_;
  Fifo fifo_{directory_.path() + "/fifo"};
  std::string program_ = DP_RANK_STUB;
  std::string working_dir_;
  std::vector<std::string> environment_;
  std::optional<Account> run_as_;
  RankMounts mounts_;
  std::vector<std::string> allowed_;
  SpawnedGuard guard_;
};

// The guard may be root, and the words are the job's.
TEST_F(SpawnTest, WordsOfARankAreNoOptionsOfItsGuard) {
  for (const char* word : {"--directory=/no/such", "--user=0:0:0", "--exit-file=/no/such", "--"}) {
    program_ = word;
    ASSERT_TRUE(Spawn({DP_RANK_STUB, "exit", "0"}).ok());
    const GuardNews news = Next();
    EXPECT_EQ(news.what, GuardNews::What::kNotStarted) << word;
    EXPECT_EQ(news.number, ENOENT) << word;
    waitpid(std::exchange(guard_.pid, 0), nullptr, 0);
  }
}

// Each loader that is told of a library that is not there says so.
TEST_F(SpawnTest, VariablesOfARankAreNoneOfItsGuard) {
  environment_ = {"LD_PRELOAD=/no/such.so", "A=b"};
  ASSERT_TRUE(Spawn({"env", "LD_PRELOAD", "A"}).ok());
  EXPECT_EQ(Output(), "LD_PRELOAD=/no/such.so\nA=b\n");
  const std::string said = Output("/err");
  EXPECT_THAT(said, HasSubstr("/no/such.so"));
  EXPECT_EQ(said.find("/no/such.so"), said.rfind("/no/such.so")) << said;
}

TEST_F(SpawnTest, ARankInheritsNoDescriptorButItsStandardStreams) {
  const FileDescriptor leaked(open("/dev/null", O_RDONLY));  // without O_CLOEXEC, as libraries do
  const FileDescriptor high(fcntl(leaked.get(), F_DUPFD, 500));
  ASSERT_TRUE(Spawn({"inherited"}).ok());
  EXPECT_THAT(Output(), HasSubstr("descriptors 0 1 2\n"));
}

TEST_F(SpawnTest, AGuardHoldsNoDescriptorOfTheDaemon) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  ASSERT_TRUE(Spawn({"wait", fifo_.path()}).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  writer.Close();
  char byte = 0;
  fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);  // end of file: nobody else holds the writer
}

TEST_F(SpawnTest, ARankWithSecretsAndItsGuardLeaveNoCoreDump) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &own), 0);
  if (own.rlim_max <= 1) GTEST_SKIP() << "core dumps are off here";
  ASSERT_TRUE(Spawn({"wait", fifo_.path()}, {.descriptors = 1024, .cgroups = {}}, true).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  const GuardNews started = Next();
  ASSERT_EQ(started.what, GuardNews::What::kStarted);
  for (const pid_t each : {guard_.pid, pid_t{started.number}}) {
    rlimit limit{};
    ASSERT_EQ(prlimit(each, RLIMIT_CORE, nullptr, &limit), 0);
    EXPECT_EQ(limit.rlim_max, 1u);
#ifdef __SANITIZE_ADDRESS__
    EXPECT_LE(limit.rlim_cur, 1u);  // the sanitizer sets it to 0 in each program of its own
#else
    EXPECT_EQ(limit.rlim_cur, 1u);
#endif
  }
}

TEST_F(SpawnTest, AnyOtherRankMayLeaveOne) {
  rlimit own{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &own), 0);
  ASSERT_TRUE(Spawn({"inherited"}).ok());
  EXPECT_THAT(Output(), HasSubstr(absl::StrCat("core ", own.rlim_max, "\n")));
}

TEST_F(SpawnTest, ARankHasTheLimitOfOpenFilesThatItIsGiven) {
  ASSERT_TRUE(Spawn({"inherited"}, {.descriptors = 321, .cgroups = {}}).ok());
  EXPECT_THAT(Output(), HasSubstr("limit 321\n"));
}

TEST_F(SpawnTest, ARankBlocksAndIgnoresNoSignalWhateverTheDaemonDoes) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  sigset_t blocked;
  sigset_t mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &mask);
  ASSERT_TRUE(Spawn({"inherited"}).ok());
  EXPECT_THAT(Output(), HasSubstr("SigBlk: 0\nSigIgn: 0\n"));
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  signal(SIGPIPE, before);
}

// The kernel would let whoever opens the file wait for up to 45 s.
TEST_F(SpawnTest, NobodyWaitsForALeaseOfTheRanksUser) {
  const auto before = signal(SIGIO, SIG_IGN);
  const std::string path = directory_.path() + "/out";
  FileDescriptor lease(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(fcntl(lease.get(), F_SETLEASE, F_WRLCK), 0);
  EXPECT_FALSE(Spawn({"exit", "0"}).ok());
  lease.Close();
  program_ = "/bin/sh";
  ASSERT_TRUE(Spawn({"-c",
                     "f=$(grep flags /proc/self/fdinfo/2 | tr -dc 0-7); "
                     "echo $((0$f & 04000)) $((0$f & 02000))"})
                  .ok());
  EXPECT_EQ(Output(), "0 1024\n");  // O_NONBLOCK, O_APPEND
  signal(SIGIO, before);
}

TEST_F(SpawnTest, ARankThatCannotJoinItsCgroupIsNotStarted) {
  ASSERT_TRUE(Spawn({"exit", "0"}, {.descriptors = 1024, .cgroups = {"/nowhere"}}).ok());
  const GuardNews news = Next();
  EXPECT_EQ(news.what, GuardNews::What::kNotConfined);
  EXPECT_EQ(news.number, ENOENT);
  EXPECT_EQ(Next().what, GuardNews::What{});
}

// In other tests the daemon is a subreaper and would kill the rank as well.
TEST_F(SpawnTest, AKilledGuardTakesItsRankAlong) {
  ASSERT_TRUE(Spawn({"wait", fifo_.path()}).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  kill(guard_.pid, SIGKILL);
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(SpawnTest, AGuardAndItsRankAreEachInASessionOfTheirOwn) {
  ASSERT_TRUE(Spawn({"wait", fifo_.path()}).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  EXPECT_EQ(getsid(guard_.pid), guard_.pid);
  const std::vector<pid_t> ranks = Children(guard_.pid);
  ASSERT_THAT(ranks, testing::SizeIs(1));
  EXPECT_EQ(getsid(ranks.front()), ranks.front());
}

TEST_F(SpawnTest, AWorkingDirectoryThatIsNotThereIsReported) {
  working_dir_ = "/nowhere/at/all";
  ASSERT_TRUE(Spawn({"exit", "0"}).ok());
  const GuardNews news = Next();
  EXPECT_EQ(news.what, GuardNews::What::kNotInDir);
  EXPECT_EQ(news.number, ENOENT);
}

TEST_F(SpawnTest, AnAllowedProgramRunsAsItWasNamed) {
  allowed_ = {"/bin/sh"};
  environment_ = {"PATH=/no/such:/bin"};
  program_ = "sh";
  ASSERT_TRUE(Spawn({"-c", "echo $0"}).ok());
  EXPECT_EQ(Output(), "sh\n");
}

TEST_F(SpawnTest, AnyOtherProgramIsNotStartedWhateverItIsCalled) {
  allowed_ = {"/bin/sh"};
  program_ = directory_.path() + "/sh";
  std::filesystem::create_symlink("/bin/cat", program_);
  ASSERT_TRUE(Spawn({"/dev/null"}).ok());
  GuardMessage message{};
  const ssize_t size = recv(guard_.socket.get(), &message, sizeof(message), 0);
  ASSERT_GT(size, static_cast<ssize_t>(sizeof(GuardNews)));
  EXPECT_EQ(message.news.what, GuardNews::What::kNotAllowed);
  EXPECT_EQ(std::string(message.text, size - sizeof(GuardNews)),
            std::filesystem::canonical("/bin/cat"));
}

TEST_F(SpawnTest, AProgramThatIsNotThereIsReportedAsEver) {
  allowed_ = {"/"};
  program_ = "no-such-program";
  ASSERT_TRUE(Spawn({}).ok());
  const GuardNews news = Next();
  EXPECT_EQ(news.what, GuardNews::What::kNotStarted);
  EXPECT_EQ(news.number, ENOENT);
}

TEST_F(SpawnTest, AMountThatCannotBeMadeKeepsTheRankFromStarting) {
  mounts_ = {.read_only_root = true, .writable = {"/no/such"}};
  ASSERT_TRUE(Spawn({"exit", "0"}).ok());
  EXPECT_EQ(Next().what, GuardNews::What::kNotMounted);
}

class SpawnAsUserTest : public SpawnTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
    run_as_ = Account{.name = "ann", .uid = 12345, .gid = 12346, .groups = {12346, 12347}};
    program_ = "/bin/sh";
  }
};

TEST_F(SpawnAsUserTest, ARankHasTheUserAndTheGroupsOfItsAccountAlone) {
  working_dir_ = "/usr";
  ASSERT_TRUE(
      Spawn({"-c", "id -u; id -g; id -G; pwd; grep -E 'Uid|Gid|Cap|NoNew' /proc/self/status"})
          .ok());
  const std::string output = Output();
  EXPECT_THAT(output, testing::StartsWith("12345\n12346\n12346 12347\n/usr\n"));
  EXPECT_THAT(output, HasSubstr("Uid:\t12345\t12345\t12345\t12345\n"));
  EXPECT_THAT(output, HasSubstr("Gid:\t12346\t12346\t12346\t12346\n"));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    EXPECT_THAT(output, HasSubstr(std::string(set) + ":\t0000000000000000\n"));
  }
  EXPECT_THAT(output, HasSubstr("NoNewPrivs:\t1\n"));
}

TEST_F(SpawnAsUserTest, AJobCannotChooseItsUser) {
  program_ = std::string(kGuardUser) + "0:0:";
  ASSERT_TRUE(Spawn({"/bin/true"}).ok());
  EXPECT_EQ(Next().what, GuardNews::What::kNotStarted);
}

TEST_F(SpawnAsUserTest, ARankHasNoKeyOfTheDaemon) {
  constexpr char kKey[] = "a-key-of-the-daemon";
  const auto key = static_cast<int>(
      syscall(SYS_add_key, "user", kKey, "value", size_t{5}, KEY_SPEC_SESSION_KEYRING));
  std::ifstream keys("/proc/keys");
  if (key < 0 || (std::stringstream() << keys.rdbuf()).str().find(kKey) == std::string::npos) {
    GTEST_SKIP() << "needs a kernel that keeps keys";
  }
  ASSERT_TRUE(Spawn({"-c", "cat /proc/keys; echo read"}).ok());
  const std::string output = Output();
  EXPECT_THAT(output, HasSubstr("read\n"));
  EXPECT_THAT(output, testing::Not(HasSubstr(kKey)));
  syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_SESSION_KEYRING);
}

TEST_F(SpawnAsUserTest, TheWorkingDirectoryIsEnteredAsTheUser) {
  working_dir_ = directory_.path();  // which only this process's user may enter
  ASSERT_TRUE(Spawn({"-c", "true"}).ok());
  const GuardNews news = Next();
  EXPECT_EQ(news.what, GuardNews::What::kNotInDir);
  EXPECT_EQ(news.number, EACCES);
}

TEST_F(SpawnAsUserTest, ARankWithMountsOfItsOwnIsTheUserWithoutCapabilities) {
  if (system("unshare -m true") != 0) GTEST_SKIP() << "mount namespaces cannot be made here";
  mounts_ = {.read_only_root = true};
  ASSERT_TRUE(Spawn({"-c",
                     "id -u; grep -E 'CapEff|NoNew' /proc/self/status; exec 2>&1; : > "
                     "/var/mine"})
                  .ok());
  const std::string output = Output();
  EXPECT_THAT(output, testing::StartsWith("12345\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\n"));
  EXPECT_THAT(output, HasSubstr("Read-only file system"));
}

TEST_F(SpawnAsUserTest, ARankCannotSignalItsGuard) {
  ASSERT_TRUE(Spawn({"-c", "kill -0 $PPID || echo denied"}).ok());
  EXPECT_EQ(Output(), "denied\n");
}

TEST_F(SpawnAsUserTest, AKilledGuardTakesARankOfAnotherUserAlong) {
  chmod(directory_.path().c_str(), 0711);
  chown(fifo_.path().c_str(), 12345, 12346);
  ASSERT_TRUE(Spawn({"-c", "exec > " + fifo_.path() + "; echo ready; exec sleep 1000"}).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  kill(guard_.pid, SIGKILL);
  EXPECT_EQ(fifo_.Read(), "");
}

TEST_F(SpawnAsUserTest, AnOrderedKillReachesARankOfAnotherUser) {
  chmod(directory_.path().c_str(), 0711);
  chown(fifo_.path().c_str(), 12345, 12346);
  ASSERT_TRUE(Spawn({"-c", "exec > " + fifo_.path() + "; echo ready; sleep 1000 & wait"}).ok());
  ASSERT_EQ(fifo_.Read(), "ready\n");
  guard_.socket.Close();
  EXPECT_EQ(fifo_.Read(), "");
}

}  // namespace
}  // namespace dp::worker
