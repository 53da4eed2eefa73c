#include "client/job/secret_source.h"

#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/limits.h"
#include "base/testing/scratch_dir.h"
#include "client/job/job_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SecretSourceTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) {
    std::ofstream(directory_.path() / "key", std::ios::binary) << text;
    return "key";
  }
  absl::StatusOr<std::string> Read(const std::string& text) {
    const auto source = ParseSecretSource(text);
    if (!source.ok()) return source.status();
    return ReadSecret(*source, directory_.path());
  }
  std::string Refusal(const std::string& text) {
    return std::string(Read(text).status().message());
  }

  const ScratchDir directory_;
};

TEST_F(SecretSourceTest, ANameStandsForTheVariable) {
  setenv("DP_TEST_SECRET", "from here\n", 1);
  EXPECT_EQ(Read("DP_TEST_SECRET").value_or(""), "from here\n");
  unsetenv("DP_TEST_SECRET");
  EXPECT_THAT(
      Refusal("DP_TEST_SECRET"),
      HasSubstr("secret DP_TEST_SECRET: there is no variable of this name here; export it"));
}

TEST_F(SecretSourceTest, AFileLosesItsLastLineBreak) {
  Write("from a file\n");
  EXPECT_EQ(Read("TOKEN=key").value_or(""), "from a file");
  EXPECT_EQ(Read(absl::StrCat("TOKEN=", (directory_.path() / "key").string())).value_or(""),
            "from a file");
  Write("two\nlines\n\n");
  EXPECT_EQ(Read("TOKEN=key").value_or(""), "two\nlines\n");
}

TEST_F(SecretSourceTest, AFileThatCannotBeReadIsNotNamed) {
  const std::string refusal = Refusal("TOKEN=hf_abcdef");
  EXPECT_THAT(refusal, HasSubstr("secret TOKEN: the file that is named behind '=' cannot be read: "
                                 "No such file or directory"));
  EXPECT_THAT(refusal, Not(HasSubstr("hf_abcdef")));
  EXPECT_THAT(Refusal("TOKEN=."), HasSubstr("Is a directory"));
  EXPECT_THAT(Refusal("TOKEN="), HasSubstr("secret TOKEN names no file behind '='"));
}

TEST_F(SecretSourceTest, AReaderOfAPipeCanBeInterrupted) {
  ASSERT_EQ(mkfifo((directory_.path() / "pipe").c_str(), 0600), 0);
  const FileDescriptor stop(eventfd(1, EFD_CLOEXEC));
  EXPECT_EQ(ReadSecret({"TOKEN", "pipe"}, directory_.path(), stop.get()).status(),
            absl::CancelledError("interrupted while reading secret TOKEN"));
}

TEST_F(SecretSourceTest, TheValueIsChecked) {
  Write("\n");
  EXPECT_THAT(Refusal("TOKEN=key"), HasSubstr("secret TOKEN is empty"));
  Write("abc\n");
  EXPECT_THAT(Refusal("TOKEN=key"), HasSubstr("secret TOKEN has 3 bytes"));
  Write(std::string("ab\0cd", 5));
  EXPECT_THAT(Refusal("TOKEN=key"), HasSubstr("zero byte"));
  Write(std::string(kSecretBytesMax, 'x') + "\n");
  EXPECT_EQ(Read("TOKEN=key").value_or("").size(), kSecretBytesMax);
  Write(std::string(2 * kSecretBytesMax, 'x'));
  EXPECT_THAT(Refusal("TOKEN=key"), HasSubstr("secret TOKEN has more than 65536 bytes, "));
}

TEST(JobFileSecretsTest, TheSpecKeepsNamesOnly) {
  const auto job = ParseJobFile(
      "apiVersion: dp/v1\nkind: Job\nname: a\nsecrets: [HF_TOKEN, API_KEY=/home/ann/key]\n",
      "job.yaml");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->spec.secrets(), ElementsAre("HF_TOKEN", "API_KEY"));
  ASSERT_EQ(job->secrets.size(), 2);
  EXPECT_EQ(job->secrets[0].file, "");
  EXPECT_EQ(job->secrets[1].file, "/home/ann/key");
}

TEST(JobFileSecretsTest, AnEntryWithoutFileIsNamedWithItsPlace) {
  const auto job =
      ParseJobFile("apiVersion: dp/v1\nkind: Job\nname: a\nsecrets:\n  - KEY=\n", "job.yaml");
  EXPECT_THAT(std::string(job.status().message()),
              HasSubstr("job.yaml:5:5: secret KEY names no file"));
}

}  // namespace
}  // namespace dp::client
