#include "client/dpctl/run/secret_flags.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/program_test.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SecretFlagsTest : public ProgramTest {
 protected:
  SecretFlagsTest() {
    setenv("HF_TOKEN", "hf_from_here", 1);
    std::ofstream(key()) << "from_a_file\n";
    coordinator_.access.who_am_i.set_takes_secrets(true);
  }
  ~SecretFlagsTest() override { unsetenv("HF_TOKEN"); }

  std::string key() const { return scratch_.path() / "key"; }
  // "NAME=value" each, of the last submission.
  std::vector<std::string> Sent() const {
    std::vector<std::string> sent;
    for (const v1::Secret& secret : coordinator_.secrets)
      sent.push_back(absl::StrCat(secret.name(), "=", secret.value()));
    return sent;
  }
  std::string JobFile(const std::string& secrets) const {
    const std::string path = scratch_.path() / "job.yaml";
    std::ofstream(path) << "apiVersion: dp/v1\nkind: Job\nname: a\nsecrets: " << secrets
                        << "\ncommand: {argv: [\"true\"], workingDir: /}\n";
    return path;
  }
  void ExpectRefused(const std::string& words, const std::string& why) {
    const Result result = Dpctl("submit " + words);
    EXPECT_NE(result.code, 0) << words;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_THAT(Sent(), IsEmpty());
    EXPECT_THAT(result.out + result.err, Not(HasSubstr("hf_from_here")));
  }

  const dp::ScratchDir scratch_;
};

TEST_F(SecretFlagsTest, CtrlCEndsRunWhileItReadsAValueOrItsJobFile) {
  const std::string pipe = scratch_.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  interrupts_.Raise();
  const Result result = Dpctl("run --secret KEY=" + pipe + " train.py");
  EXPECT_EQ(result.code, 103);
  EXPECT_THAT(result.err, HasSubstr("dpctl: interrupted; no job was submitted\n"));
  EXPECT_EQ(Dpctl("run " + pipe).code, 103);  // as a job file
  EXPECT_THAT(coordinator_.jobs, IsEmpty());
}

TEST_F(SecretFlagsTest, ValuesGoBesideTheJob) {
  const v1::JobSpec spec =
      Submitted(absl::StrCat("--secret HF_TOKEN --secret KEY=", key(), " train.py"));
  EXPECT_THAT(spec.secrets(), ElementsAre("HF_TOKEN", "KEY"));
  EXPECT_THAT(Sent(), ElementsAre("HF_TOKEN=hf_from_here", "KEY=from_a_file"));
  EXPECT_THAT(spec.DebugString(), Not(HasSubstr("from_")));
  EXPECT_THAT(out_.str() + err_.str(), Not(HasSubstr("from_")));
}

TEST_F(SecretFlagsTest, AFileThatEveryUserMayReadIsMentioned) {
  const std::string words = absl::StrCat("submit --secret KEY=", key(), " train.py");
  for (const mode_t mode : {0600, 0640, 0644}) {
    err_.str("");
    ASSERT_EQ(chmod(key().c_str(), mode), 0);
    EXPECT_EQ(Dpctl(words).code, 0);
    const std::string mentioned =
        "dpctl: the mode of secret KEY's file lets every user read it; take that right away with "
        "chmod 600\n";
    EXPECT_EQ(err_.str().find(mentioned) != std::string::npos, mode == 0644) << err_.str();
  }
}

TEST_F(SecretFlagsTest, AFlagReplacesAnEntryOfTheJobFile) {
  Submitted(
      absl::StrCat(JobFile("[HF_TOKEN=/nowhere]"), " --secret HF_TOKEN --secret KEY=", key()));
  EXPECT_THAT(Sent(), ElementsAre("HF_TOKEN=hf_from_here", "KEY=from_a_file"));
}

TEST_F(SecretFlagsTest, NamesAreChecked) {
  ExpectRefused("--secret HF_TOKEN --secret HF_TOKEN train.py",
                "--secret is HF_TOKEN, which was named before; leave one out");
  ExpectRefused("--secret HF_TOKEN --env HF_TOKEN=x train.py", "is HF_TOKEN, which env sets too");
  ExpectRefused("--secret DP_JOB train.py", "is DP_JOB, which dp sets itself");
  ExpectRefused("--secret 1A train.py", "a name has up to 256 bytes and consists of letters");
  ExpectRefused("--secret NOT_SET_HERE train.py", "no variable of this name here");
  ExpectRefused("--secret KEY=/nowhere train.py", "cannot be read");
}

TEST_F(SecretFlagsTest, ADryRunShowsNamesAndReadsNothing) {
  const Result result =
      Dpctl(absl::StrCat("submit --dry-run ", JobFile("[HF_TOKEN, NOT_SET_HERE=/nowhere]")));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("secrets:\n  - HF_TOKEN\n  - NOT_SET_HERE\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("nowhere")));
}

TEST_F(SecretFlagsTest, NothingIsSentInPlainText) {
  ExpectRefused("--insecure --secret HF_TOKEN train.py",
                "--insecure would send them in plain text");
}

TEST_F(SecretFlagsTest, NothingIsSentToACoordinatorThatTakesNoSecrets) {
  coordinator_.access.who_am_i.clear_takes_secrets();
  ExpectRefused("--secret HF_TOKEN train.py", " takes no secrets: it is of an earlier release");
  EXPECT_THAT(coordinator_.jobs, IsEmpty());
}

TEST_F(SecretFlagsTest, DescribeShowsNames) {
  AddJob(7, "spec { name: 'a' secrets: 'HF_TOKEN' secrets: 'KEY' } state: JOB_STATE_PENDING");
  EXPECT_THAT(Dpctl("describe 7").out, HasSubstr("Secrets:     HF_TOKEN, KEY\n"));
  EXPECT_THAT(Dpctl("describe 7 -o json").out,
              HasSubstr("\"secrets\": [\n    \"HF_TOKEN\",\n    \"KEY\"\n  ]"));
}

}  // namespace
}  // namespace dp::ctl
