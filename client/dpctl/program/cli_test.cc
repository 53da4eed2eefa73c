#include <cerrno>
#include <cstdlib>

#include "base/version.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class CliTest : public DpctlTest {};

TEST_F(CliTest, EveryCommandHasHelpWithAnExample) {
  for (const auto& command : AllCommands()) {
    out_.str("");
    const Result result = Dpctl(std::string(command->name()) + " --help");
    EXPECT_EQ(result.code, 0);
    EXPECT_THAT(result.out, HasSubstr("Example:\n  dpctl " + std::string(command->name())));
  }
}

TEST_F(CliTest, TheUsageNamesProgramsAndTheirArguments) {
  EXPECT_THAT(Dpctl("run --help").out,
              HasSubstr("Usage: dpctl run [OPTIONS] FILE\n"
                        "       dpctl run [OPTIONS] SCRIPT.py [ARGS...]\n"
                        "       dpctl run [OPTIONS] -- PROGRAM [ARGS...]\n"));
  EXPECT_THAT(Dpctl("torchrun --help").out,
              HasSubstr("Usage: dpctl torchrun [OPTIONS] SCRIPT [ARGS...]\n"));
  EXPECT_THAT(Dpctl("ps --help").out, HasSubstr("Usage: dpctl ps [OPTIONS]\n"));
}

TEST_F(CliTest, AnEqualsSignBehindALetterBelongsToTheFlag) {
  EXPECT_EQ(Dpctl("ps -o=json").code, 0) << err_.str();
  EXPECT_EQ(out_.str().front(), '{');
}

TEST_F(CliTest, TheHintNamesTheCommand) {
  EXPECT_THAT(Dpctl("store get --wat 7 key").err,
              HasSubstr("there is no flag '--wat'; did you mean '--wait'?\n"
                        "See 'dpctl store get --help'.\n"));
}

TEST_F(CliTest, AWrongWordIsShownOnOneLine) {
  EXPECT_THAT(Dpctl("grant us\ner ann").err, HasSubstr("us\\ner"));
  EXPECT_THAT(Dpctl("ps a\nb").err, HasSubstr("a\\nb"));
}

TEST_F(CliTest, AMisspeltCommandGetsTheNearestOne) {
  const Result result = Dpctl("sumbit job.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no command 'sumbit'; did you mean 'submit'?"));
  EXPECT_EQ(result.out, "");
}

TEST_F(CliTest, ACommandOfAnotherSystemGetsItsEquivalent) {
  const std::pair<const char*, const char*> words[] = {
      {"squeue", "ps"},       {"sbatch", "submit"}, {"scancel", "cancel"}, {"sinfo", "workers"},
      {"status", "describe"}, {"delete", "rm"},     {"cordon", "drain"},   {"tail", "logs"}};
  for (const auto& [word, command] : words) {
    EXPECT_THAT(Dpctl(word).err, HasSubstr(absl::StrCat("did you mean '", command, "'?"))) << word;
    EXPECT_EQ(Dpctl(absl::StrCat(command, " --help")).code, 0) << command;
  }
  EXPECT_THAT(Dpctl("store squeue").err, HasSubstr("no command 'squeue'; give one of ls"));
}

TEST_F(CliTest, ACommandThatIsCutShortIsCompleted) {
  EXPECT_THAT(Dpctl("prun").err, HasSubstr("did you mean 'prune'?"));
  EXPECT_THAT(Dpctl("rnu").err, HasSubstr("did you mean 'run'?"));
  EXPECT_THAT(Dpctl("prnue").err, HasSubstr("did you mean 'prune'?"));
}

TEST_F(CliTest, AnUnknownCommandIsNamedWithThoseThereAre) {
  const Result result = Dpctl("foo");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(
      result.err,
      "dpctl: there is no command 'foo'; give one of submit, run, torchrun, launch, ps, "
      "describe, logs, wait, cancel, rm, prune, hold, release, requeue, priority, events, "
      "checkpoints, eval, predict, weights, workers, drain, undrain, "
      "store, data, login, logout, whoami, token, grant, revoke, access, audit, completion\nSee "
      "'dpctl --help'.\n");
}

TEST_F(CliTest, TheSameBelowACommand) {
  EXPECT_THAT(Dpctl("store gte 7 key").err,
              HasSubstr("there is no command 'gte'; did you mean 'get'?"));
}

TEST_F(CliTest, AnArgumentThatCannotBeSentIsNamed) {
  for (const std::string line :
       {"drain w1 --reason a\xFFz", "describe a\xFFz", "store ls a\xFFz"}) {
    const Result result = Dpctl(line);
    EXPECT_EQ(result.code, 2) << line;
    EXPECT_THAT(result.err, HasSubstr("dpctl: the argument \"a\\377z\" is not UTF-8")) << line;
  }
}

TEST_F(CliTest, WhatItSaysOfOthersWordsMovesNoCursor) {
  EXPECT_THAT(Dpctl("foo\x1b[31m").err, HasSubstr("there is no command 'foo\\x1b[31m'"));
}

TEST_F(CliTest, NoCommandIsAUsageError) {
  const Result result = Dpctl("--no-headers");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is no command; give one of submit, run"));
}

TEST_F(CliTest, TheVersionIsTheProjects) {
  const Result result = Dpctl("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, std::string("dpctl ") + kVersion + "\n");
}

TEST_F(CliTest, AnEmptyDirectoryOfACredentialIsAUsageError) {
  const Result result = Dpctl("--credentials  whoami");  // with an empty word
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--credentials"));
}

TEST_F(CliTest, AnAddressThatIsNoneIsAUsageError) {
  for (const std::string wrong : {"", "foo", "host:", "::1:7070"}) {
    err_.str("");
    const Result result = Dpctl("ps --coordinator " + wrong);
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_THAT(result.err, HasSubstr("the coordinator's address '" + wrong + "'")) << wrong;
    EXPECT_THAT(result.err, HasSubstr("write it as 10.0.0.1:7070")) << wrong;
  }
  EXPECT_EQ(Dpctl("ps --coordinator host:99999").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("has port 99999; a port is from 1 to 65535"));
}

TEST_F(CliTest, OutputThatIsLostIsAFailure) {
  write_error_ = ENOSPC;
  const Result result = Dpctl("ps");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "dpctl: standard output cannot be written: No space left on device\n");
  EXPECT_EQ(Dpctl("wait 99").code, 102);
}

TEST_F(CliTest, AReaderThatHadEnoughIsNoFailure) {
  write_error_ = EPIPE;
  const Result result = Dpctl("ps");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(CliTest, AfterACommandThatCalledItsLoginIsRenewedOnce) {
  Dpctl("ps --coordinator host:1");
  EXPECT_EQ(logins_.renewed, std::vector<std::string>{"host:1"});
}

TEST_F(CliTest, NothingIsRenewedWhereNobodyWasCalledOrTheCallFailed) {
  Dpctl("completion bash");
  Dpctl("wait 99");
  EXPECT_TRUE(logins_.renewed.empty());
}

TEST_F(CliTest, AnUnknownFlagIsAUsageError) {
  const Result result = Dpctl("ps --colour");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--colour"));
}

TEST_F(CliTest, AWrongDurationOrFormatIsAUsageError) {
  EXPECT_EQ(Dpctl("ps --timeout soon").code, 2);
  EXPECT_EQ(Dpctl("ps --timeout -5s").code, 2);
  EXPECT_EQ(Dpctl("ps -o xml").code, 2);
  EXPECT_THAT(err_.str(), HasSubstr("'xml' is no format; expected table, json or name"));
}

TEST_F(CliTest, ADurationHasAUnit) {
  const Result result = Dpctl("ps --timeout 5");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("'5' has no unit; write 5s"));
}

TEST_F(CliTest, TheAddressComesFromFlagEnvironmentOrDefault) {
  unsetenv("DPCTL_COORDINATOR");
  Dpctl("ps");
  EXPECT_EQ(address_, "127.0.0.1:7070");
  setenv("DPCTL_COORDINATOR", "env:1", 1);
  Dpctl("ps");
  EXPECT_EQ(address_, "env:1");
  Dpctl("ps --coordinator flag:2");
  EXPECT_EQ(address_, "flag:2");
  unsetenv("DPCTL_COORDINATOR");
}

}  // namespace
}  // namespace dp::ctl
