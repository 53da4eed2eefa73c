#include "server/convert/convert_logs.h"

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

core::Worker OnHostA() {
  core::Worker worker;
  worker.name = "node1";
  worker.host = "host-a";
  return worker;
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
  EXPECT_TRUE(FromProto(LineOf(3, 1), ShrunkenJob(), OnHostA()).ok());
  EXPECT_EQ(FromProto(LineOf(3, 2), ShrunkenJob(), OnHostA()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FromProto(LineOf(4, 0), ShrunkenJob(), OnHostA()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FromProto(LineOf(2, -1), ShrunkenJob(), OnHostA()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ConvertLogsTest, AnEarlierGenerationMayHaveHadMoreRanksWhoseLastLinesComeLate) {
  EXPECT_TRUE(FromProto(LineOf(2, 3), ShrunkenJob(), OnHostA()).ok());
}

TEST(ConvertLogsTest, MoreThanAStreamCanHaveIsRefused) {
  v1::AppendLogsRequest request = LineOf(3, 0);
  request.mutable_chunks(0)->clear_data();
  constexpr uint64_t kMost = ~uint64_t{0};
  for (const auto& [offset, cut] :
       {std::pair<uint64_t, uint64_t>{0, kMost}, {kMost, 0}, {kMost, 1}}) {
    request.mutable_chunks(0)->set_offset(offset);
    request.mutable_chunks(0)->set_cut_bytes(cut);
    EXPECT_EQ(FromProto(request, ShrunkenJob(), OnHostA()).status().code(),
              absl::StatusCode::kInvalidArgument)
        << offset << " " << cut;
  }
}

TEST(ConvertLogsTest, TimesComeAndGoUnchanged) {
  const absl::Time time = absl::FromUnixMicros(1'700'000'000'123'456);
  const LogChunk chunk{{Generation(3), 1, LogStreamKey::Kind::kStderr}, 9, "line\n", {{9, time}}};
  v1::AppendLogsRequest request;
  *request.add_chunks() = ToProto(chunk);
  EXPECT_THAT(FromProto(request, ShrunkenJob(), OnHostA())->chunks, testing::ElementsAre(chunk));
}

TEST(ConvertLogsTest, WhereALineComesFromIsTheWorkersToSayAndOnlyTheSpoolIsTheDaemons) {
  v1::AppendLogsRequest request = LineOf(3, 1);
  v1::RankOutput* told = request.add_ranks();
  told->set_generation(3);
  told->set_rank(0);
  told->set_spool("/var/lib/dp/spool/7/3/0");
  told->set_whole(true);
  EXPECT_THAT(FromProto(request, ShrunkenJob(), OnHostA())->ranks,
              testing::ElementsAre(
                  RankOutput{Generation(3), 0, "node1", "host-a", "/var/lib/dp/spool/7/3/0", true},
                  RankOutput{Generation(3), 1, "node1", "host-a"}));
  told->set_rank(2);
  EXPECT_EQ(FromProto(request, ShrunkenJob(), OnHostA()).status().code(),
            absl::StatusCode::kInvalidArgument);
  told->set_rank(0);
  told->set_spool(std::string(5000, 'x'));
  EXPECT_EQ(FromProto(request, ShrunkenJob(), OnHostA()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dp::server
