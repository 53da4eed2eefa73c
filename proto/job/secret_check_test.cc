#include "proto/job/secret_check.h"

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SecretCheckTest : public ::testing::Test {
 protected:
  void Name(const std::string& name) { request_.mutable_spec()->add_secrets(name); }
  void Give(const std::string& name, const std::string& value) {
    v1::Secret* secret = request_.add_secrets();
    secret->set_name(name);
    secret->set_value(value);
  }
  std::string Refusal() const {
    const absl::Status status = CheckSecrets(request_.spec(), request_.secrets());
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  v1::SubmitRequest request_;
};

TEST_F(SecretCheckTest, EachNameHasOneValue) {
  Name("HF_TOKEN");
  EXPECT_THAT(Refusal(), HasSubstr("secret HF_TOKEN has no value; dpctl of this release sends it"));
  Give("HF_TOKEN", "hf_abc");
  EXPECT_EQ(Refusal(), "");
  Give("HF_TOKEN", "hf_def");
  EXPECT_THAT(Refusal(),
              HasSubstr("secret HF_TOKEN has a value, but the job's secrets do not name"));
}

TEST_F(SecretCheckTest, AValueWithoutNameIsRejectedAndNotShown) {
  Give("HF_TOKEN", "hf_abc");
  EXPECT_THAT(Refusal(), HasSubstr("secret HF_TOKEN has a value, but"));
  EXPECT_THAT(Refusal(), Not(HasSubstr("hf_abc")));
}

TEST_F(SecretCheckTest, TogetherTheyAreBounded) {
  std::string name = "A";
  for (size_t bytes = 0; bytes < kSecretBytesMax; bytes += 1 + 16383, ++name[0]) {
    Name(name);
    Give(name, std::string(16383, 'x'));
  }
  EXPECT_EQ(Refusal(), "");
  Name("Z");
  Give("Z", "more");
  EXPECT_THAT(Refusal(), HasSubstr("the job's secrets have 65541 bytes with their names"));
}

TEST(SecretValueTest, SaysWhatIsWrongButNotTheValue) {
  EXPECT_TRUE(CheckSecretValue("A", "abcd").ok());
  EXPECT_THAT(CheckSecretValue("A", "").message(), HasSubstr("secret A is empty; give it a value"));
  EXPECT_THAT(CheckSecretValue("A", "abc").message(), HasSubstr("secret A has 3 bytes"));
  EXPECT_THAT(CheckSecretValue("A", std::string("ab\0cd", 5)).message(), HasSubstr("a zero byte"));
  EXPECT_THAT(CheckSecretValue("A", std::string(kSecretBytesMax + 1, 'x')).message(),
              HasSubstr("secret A has more than 65536 bytes, which"));
}

}  // namespace
}  // namespace dp
