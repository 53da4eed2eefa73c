// Compares docs/job-file.md with the schema.

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/job/job_file.h"
#include "dp/v1/job_spec.pb.h"
#include "gtest/gtest.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"

namespace dp::client {
namespace {

std::string Reference() {
  std::ifstream file(DP_SOURCE_DIR "/docs/job-file.md");
  EXPECT_TRUE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void ExpectMentioned(const google::protobuf::Descriptor& type, const std::string& text) {
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    const bool alone = absl::StrContains(text, absl::StrCat("`", field.json_name(), "`"));
    const bool within = absl::StrContains(text, absl::StrCat(".", field.json_name()));
    const bool above = absl::StrContains(text, absl::StrCat("`", field.json_name(), "."));
    EXPECT_TRUE(alone || within || above) << field.full_name();
    const auto* child = field.message_type();
    if (child != nullptr && child->file() == type.file() && !field.is_map())
      ExpectMentioned(*child, text);
  }
}

TEST(JobReferenceTest, EveryFieldOfTheSchemaIsMentioned) {
  ExpectMentioned(*v1::JobSpec::descriptor(), Reference());
}

TEST(JobReferenceTest, ItsExampleIsAGoodJob) {
  const std::string text = Reference();
  const size_t begin = text.find("```yaml\n") + 8;
  auto job = ParseJobFile(text.substr(begin, text.find("```", begin) - begin), "docs/job-file.md");
  ASSERT_TRUE(job.ok()) << job.status();
  FillDefaults(job->source, job->spec);
  const auto image = [](const v1::DataSpec&) {
    return SampleForm{.shape = {1, 28, 28}, .classes = 10};
  };
  EXPECT_EQ(CheckJob(job->spec, job->source, image), absl::OkStatus());
}

}  // namespace
}  // namespace dp::client
