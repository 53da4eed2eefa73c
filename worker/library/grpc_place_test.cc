#include "worker/library/grpc_place.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/dist_error.h"
#include "worker/library/testing/thrown.h"

namespace dp::library {
namespace {

using distributed::ErrorKind;
using distributed::GrpcStoreOptions;
using ::testing::HasSubstr;

class GrpcPlaceTest : public ::testing::Test {
 protected:
  absl::StatusOr<GrpcPlace> Read(const GrpcStoreOptions& options = {}) const {
    return ReadGrpcPlace(options, [this](absl::string_view name) -> std::optional<std::string> {
      const auto found = variables_.find(std::string(name));
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    });
  }
  std::string ErrorWith(const GrpcStoreOptions& options = {}) const {
    const absl::Status status = Read(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  // Those of rank 2 of a job.
  std::map<std::string, std::string> variables_ = {{"DP_COORDINATOR", "10.0.0.1:7070"},
                                                   {"DP_JOB", "7"},
                                                   {"DP_GENERATION", "3"},
                                                   {"DP_RANK", "2"},
                                                   {"DP_CREDENTIALS", "/spool/credential"}};
};

TEST_F(GrpcPlaceTest, ARankNeedsNoOptions) {
  const auto place = Read();
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->coordinator, "10.0.0.1:7070");
  EXPECT_EQ(place->job, JobId(7));
  EXPECT_EQ(place->generation, Generation(3));
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->credentials, "/spool/credential");
  EXPECT_FALSE(place->in_plain_text);
  EXPECT_FALSE(place->accept_other_users);
  EXPECT_EQ(place->patience, absl::Seconds(30));
}

TEST_F(GrpcPlaceTest, OptionsWinOverTheEnvironment) {
  variables_["DP_INSECURE"] = "1";
  const auto place = Read({.coordinator = "[::1]:7071",
                           .job = 8,
                           .generation = 1,
                           .credentials = "/login",
                           .timeout = std::chrono::milliseconds(200)});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->coordinator, "[::1]:7071");
  EXPECT_EQ(place->job, JobId(8));
  EXPECT_EQ(place->generation, Generation(1));
  EXPECT_EQ(place->rank, -1);
  EXPECT_EQ(place->credentials, "/login");
  EXPECT_FALSE(place->in_plain_text);
  EXPECT_EQ(place->patience, absl::Milliseconds(200));
}

TEST_F(GrpcPlaceTest, MissingVariablesAreNamedTogetherWithTheRemedy) {
  variables_.clear();
  EXPECT_EQ(ErrorWith(),
            "GrpcStore misses the environment variables DP_COORDINATOR, DP_JOB, DP_GENERATION; "
            "start the program by dpctl run, or set coordinator, job and generation in "
            "GrpcStoreOptions");
  EXPECT_THAT(ErrorWith({.coordinator = "a:1", .generation = 1}),
              HasSubstr("misses the environment variable DP_JOB;"));
}

TEST_F(GrpcPlaceTest, AGenerationBelongsToItsJob) {
  EXPECT_THAT(ErrorWith({.job = 8}), HasSubstr("job is 8, and this rank's is 7; set generation"));
  EXPECT_TRUE(Read({.job = 7}).ok());
  EXPECT_TRUE(Read({.job = 8, .generation = 1}).ok());
}

TEST_F(GrpcPlaceTest, WrongValuesAreNamed) {
  EXPECT_THAT(ErrorWith({.coordinator = "nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(ErrorWith({.job = 0, .generation = 1}), HasSubstr("job is 0 and generation 1"));
  EXPECT_THAT(ErrorWith({.timeout = std::chrono::milliseconds(0)}), HasSubstr("timeout is 0"));
  variables_["DP_GENERATION"] = "three";
  EXPECT_THAT(ErrorWith(),
              HasSubstr("DP_GENERATION is 'three', which is no number; set a whole number"));
  variables_["DP_GENERATION"] = "99999999999999999999";
  EXPECT_THAT(ErrorWith(),
              HasSubstr("', which is out of range, which ends at 18446744073709551615"));
}

TEST_F(GrpcPlaceTest, ARankWithoutACredentialCallsItsOwnCoordinatorInPlainText) {
  variables_.erase("DP_CREDENTIALS");
  EXPECT_TRUE(Read()->in_plain_text);
  EXPECT_FALSE(Read({.coordinator = "10.0.0.2:7070"})->in_plain_text);
  EXPECT_FALSE(Read({.credentials = "/login"})->in_plain_text);
}

TEST_F(GrpcPlaceTest, VariablesThatAreFlagsAreReadAsDpctlReadsThem) {
  for (const char* off : {"", "0", "false"}) {
    variables_["DP_INSECURE"] = variables_["DP_ACCEPT_OTHER_USERS"] = off;
    EXPECT_FALSE(Read()->in_plain_text);
    EXPECT_FALSE(Read()->accept_other_users);
  }
  variables_["DP_INSECURE"] = variables_["DP_ACCEPT_OTHER_USERS"] = "1";
  EXPECT_TRUE(Read()->in_plain_text);
  EXPECT_TRUE(Read()->accept_other_users);
}

TEST(GrpcStoreTest, ABuildWithoutGrpcSaysSo) {
  const auto error = ErrorOf(
      [] { distributed::GrpcStore({.coordinator = "127.0.0.1:1", .job = 1, .generation = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace dp::library
