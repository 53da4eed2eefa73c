#include "server/shell/convert_logs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

// A job of two ranks in its third generation.
core::Job ShrunkenJob() {
  core::Job job;
  job.id = JobId(7);
  job.generation = Generation(3);
  job.ranks.resize(2);
  return job;
}

v1::AppendLogsRequest LineOf(uint64_t generation, int rank) {
  v1::AppendLogsRequest request;
  request.set_job(7);
  v1::LogChunk* chunk = request.add_chunks();
  chunk->set_generation(generation);
  chunk->set_rank(rank);
  chunk->set_stream(v1::LOG_STREAM_STDERR);
  chunk->set_data("line\n");
  return request;
}

TEST(ConvertLogsTest, ARankThatTheGenerationDoesNotHaveIsRefused) {
  EXPECT_TRUE(FromProto(LineOf(3, 1), ShrunkenJob()).ok());
  EXPECT_EQ(FromProto(LineOf(3, 2), ShrunkenJob()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FromProto(LineOf(4, 0), ShrunkenJob()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FromProto(LineOf(2, -1), ShrunkenJob()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ConvertLogsTest, AnEarlierGenerationMayHaveHadMoreRanksWhoseLastLinesComeLate) {
  EXPECT_TRUE(FromProto(LineOf(2, 3), ShrunkenJob()).ok());
}

TEST(ConvertLogsTest, MoreThanAStreamCanHaveIsRefused) {
  v1::AppendLogsRequest request = LineOf(3, 0);
  request.mutable_chunks(0)->clear_data();
  request.mutable_chunks(0)->set_cut_bytes(~uint64_t{0});
  EXPECT_EQ(FromProto(request, ShrunkenJob()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConvertLogsTest, TimesComeAndGoUnchanged) {
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'123'456);
  const LogChunk chunk{{Generation(3), 1, LogStreamKey::Kind::kStderr}, 9, "line\n", {{9, time}}};
  v1::AppendLogsRequest request;
  *request.add_chunks() = ToProto(chunk);
  EXPECT_THAT(*FromProto(request, ShrunkenJob()), testing::ElementsAre(chunk));
}

}  // namespace
}  // namespace dp::server
