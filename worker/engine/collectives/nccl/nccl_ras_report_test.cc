#include "worker/engine/collectives/nccl/nccl_ras_report.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr RasSelf kSelf{.rank = 0, .size = 3, .pid = 100};

std::string Rank(int rank, int pid, int async_error, int all_reduces) {
  return absl::StrCat("        {\n          \"rank\": ", rank, ",\n          \"host\": \"10.0.0.",
                      rank + 1, "\",\n          \"pid\": ", pid,
                      ",\n          \"cuda_dev\": 0,\n          \"nvml_dev\": 0,\n",
                      "          \"status\": {\n            \"init_state\": 0,\n",
                      "            \"async_error\": ", async_error,
                      ",\n            \"finalize_called\": false,\n",
                      "            \"abort_flag\": false\n          },\n",
                      "          \"collective_counts\": {\n            \"Broadcast\": 1,\n",
                      "            \"AllReduce\": ", all_reduces, "\n          }\n        }");
}

// Leaves out the comma after the last number, as NCCL 2.28 does.
std::string MissingRank(int rank, int pid, bool dead) {
  return absl::StrCat(
      "        {\n          \"rank\": ", rank, ",\n          \"host\": \"10.0.0.", rank + 1,
      "\",\n          \"pid\": ", pid, ",\n          \"cuda_dev\": 0,\n          \"nvml_dev\": 0\n",
      "          \"status\": {\n            \"unresponsive\": true,\n",
      "            \"considered_dead\": ", dead ? "true" : "false", "\n          }\n        }");
}

std::string Report(const std::string& ranks, const std::string& missing, int size = 3) {
  return absl::StrCat(
      "{\n  \"nccl_version\": \"2.28.9\",\n  \"communicators_count\": 1,\n  \"communicators\": [\n",
      "    {\n      \"hash\": \"0xabc\",\n      \"secondary_hash\": \"0x1:0x2\",\n      \"size\": ",
      size, ",\n      \"ranks_count\": 2,\n      \"missing_ranks_count\": 1,\n      \"ranks\": [\n",
      ranks, "\n      ],\n      \"missing_ranks\": [\n", missing,
      "\n      ]\n    }\n  ],\n  \"ras\": {\n    \"collection_time_sec\": 0.012,\n",
      "    \"timeouts_count\": 0\n  }\n}\n");
}

TEST(NcclRasReportTest, AMissingRankIsNamedWithItsHostAndProcess) {
  EXPECT_EQ(WordsOfRasReport(Report(Rank(0, 100, 0, 42) + ",\n" + Rank(1, 101, 0, 42),
                                    MissingRank(2, 77, false)),
                             kSelf),
            "NCCL RAS: rank 2 (host 10.0.0.3, process 77) is unresponsive");
  EXPECT_THAT(WordsOfRasReport(Report(Rank(0, 100, 0, 42), MissingRank(2, 77, true)), kSelf),
              HasSubstr("considered dead"));
}

TEST(NcclRasReportTest, ARankWhoseCountsLagIsNamed) {
  EXPECT_EQ(WordsOfRasReport(Report(Rank(0, 100, 0, 42) + ",\n" + Rank(1, 101, 6, 41), ""), kSelf),
            "NCCL RAS: rank 1 has error 6; rank 1 is behind in AllReduce (41 of 42)");
}

TEST(NcclRasReportTest, AllIsWell) {
  EXPECT_EQ(WordsOfRasReport(Report(Rank(0, 100, 0, 42) + ",\n" + Rank(1, 101, 0, 42), ""), kSelf),
            "");
}

TEST(NcclRasReportTest, ACommunicatorOfAnotherJobIsNotOurs) {
  const std::string others = Report(Rank(0, 999, 0, 42), MissingRank(2, 77, false));
  EXPECT_EQ(WordsOfRasReport(others, kSelf), "");
  const std::string larger = Report(Rank(0, 100, 0, 42), MissingRank(2, 77, false), 4);
  EXPECT_EQ(WordsOfRasReport(larger, kSelf), "");
}

TEST(NcclRasReportTest, AThousandMissingRanksAreCutShort) {
  std::string missing;
  for (int r = 1; r < 1000; ++r) absl::StrAppend(&missing, MissingRank(r, r, false), ",\n");
  const RasSelf self{.rank = 0, .size = 1000, .pid = 100};
  const std::string words = WordsOfRasReport(Report(Rank(0, 100, 0, 42), missing, 1000), self);
  EXPECT_THAT(words, HasSubstr("; and 991 more"));
  EXPECT_LT(words.size(), 1000u);
}

TEST(NcclRasReportTest, OfTextTheErrorsAndWarningsAreTaken) {
  const std::string words = WordsOfRasReport(
      "NCCL version 2.26.5 compiled with CUDA 12.9\n\nJob summary\n===========\n\n"
      "  Nodes  Processes\n      2          4\n\nErrors\n======\n\n"
      "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
      "  Process 77 on node 10.0.0.3 managing GPU 0\n\nWarnings\n========\n\n",
      kSelf);
  EXPECT_EQ(words,
            "NCCL RAS: DEAD; 1 job process is considered dead (unreachable via the RAS network); "
            "Process 77 on node 10.0.0.3 managing GPU 0");
}

TEST(NcclRasReportTest, WhateverIsCutOffOrBentIsTakenAsFarAsItGoes) {
  const std::string whole =
      Report(Rank(0, 100, 0, 42) + ",\n" + Rank(1, 101, 0, 41), MissingRank(2, 77, false));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    (void)WordsOfRasReport(whole.substr(0, bytes), kSelf);  // does not fail
    std::string bent = whole;
    bent[bytes] = static_cast<char>(bent[bytes] ^ 4);
    (void)WordsOfRasReport(bent, kSelf);
  }
  EXPECT_THAT(WordsOfRasReport("{", kSelf), Not(HasSubstr("rank")));
}

}  // namespace
}  // namespace dp::engine
