#include "worker/trainer/checkpoint/own_files.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = "job-7-20261121T161132.123Z";
const absl::Time kWritten = absl::FromUnixNanos(1'700'000'000'123'456'789);

// A file with the contents "sha" of so many bytes.
FoundFile AFile(int64_t bytes = 8) {
  return {.bytes = bytes, .modified_at = kWritten, .sha256 = [] { return std::string("sha"); }};
}

TEST(WeightsBesideTest, TheNameSaysWhichJobWroteIt) {
  const WeightsBeside beside{Generation(2), WeightsBeside::Phase::kBefore};
  EXPECT_EQ(beside.Suffix(kJob), ".job-7-20261121T161132.123Z.generation-2.tmp");
  const WeightsBeside placing{Generation(12), WeightsBeside::Phase::kPlacing};
  EXPECT_EQ(WeightsBeside::Parse(beside.Suffix(kJob), kJob), beside);
  EXPECT_EQ(WeightsBeside::Parse(placing.Suffix(kJob), kJob), placing);
}

TEST(WeightsBesideTest, NamesOfOtherJobsAndOtherFormsAreNotTheJobs) {
  for (const char* other :
       {"", ".tmp", ".generation-2.tmp", ".job-77-20261121T161132.123Z.generation-2.tmp",
        ".job-7-20261121T161132.124Z.generation-2.tmp",
        ".job-7-20261121T161132.123Z.generation-+2.tmp",
        ".job-7-20261121T161132.123Z.generation-0.tmp",
        ".job-7-20261121T161132.123Z.generation-2.bak",
        ".job-7-20261121T161132.123Z.generation-2.tmp.tmp"}) {
    EXPECT_EQ(WeightsBeside::Parse(other, kJob), std::nullopt) << other;
  }
  EXPECT_TRUE(IsNamelessWeightsSuffix(".generation-2.tmp"));
  EXPECT_FALSE(IsNamelessWeightsSuffix(".generation-2.tmp2"));
}

TEST(CheckManifestTest, ACheckpointIsTheJobsIfItsManifestSaysSo) {
  v1::CheckpointManifest manifest;
  manifest.set_job(7);
  manifest.set_step(40);
  manifest.set_generation(2);
  EXPECT_EQ(CheckManifest(JobId(7), {40, 2}, manifest), absl::OkStatus());
  EXPECT_EQ(CheckManifest(JobId(8), {40, 2}, manifest).message(), "its manifest names job 7");
  for (const CheckpointName& other : {CheckpointName{41, 2}, CheckpointName{40, 3}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(CheckManifest(JobId(7), other, manifest)));
  }
}

class CheckInCheckpointTest : public ::testing::Test {
 protected:
  CheckInCheckpointTest() {
    v1::ManifestFile& file = *manifest_.add_files();
    file.set_name(kModelFile);
    file.set_bytes(8);
    file.set_sha256("sha");
  }
  std::string Why(const std::string& name, const FoundFile& file) const {
    return std::string(CheckInCheckpoint(manifest_, name, file).message());
  }

  v1::CheckpointManifest manifest_;
};

TEST_F(CheckInCheckpointTest, AFileThatTheManifestHashesIsTheJobs) {
  EXPECT_EQ(CheckInCheckpoint(manifest_, kModelFile, AFile()), absl::OkStatus());
}

TEST_F(CheckInCheckpointTest, AnyOtherFileStays) {
  EXPECT_EQ(Why("notes.txt", AFile()), "dp did not write it");
  EXPECT_EQ(Why(kModelFile, AFile(9)), "it has 9 bytes, and the manifest says 8");
  FoundFile edited = AFile();
  edited.sha256 = [] { return std::string("other"); };
  EXPECT_EQ(Why(kModelFile, edited), "its SHA-256 is other, and the manifest says sha");
  for (const FoundFile::Kind kind :
       {FoundFile::Kind::kSymbolicLink, FoundFile::Kind::kDirectory, FoundFile::Kind::kOther}) {
    FoundFile other = AFile();
    other.kind = kind;
    EXPECT_THAT(Why(kModelFile, other), HasSubstr("and dp wrote a regular file"));
  }
}

TEST_F(CheckInCheckpointTest, AFileThatCannotBeReadIsNoForeignFile) {
  FoundFile unreadable = AFile();
  unreadable.sha256 = []() -> absl::StatusOr<std::string> {
    return absl::PermissionDeniedError("no");
  };
  EXPECT_EQ(CheckInCheckpoint(manifest_, kModelFile, unreadable).code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(CheckInPartialTest, OnlyNamesOfACheckpointAreTheJobs) {
  for (const char* name : {kModelFile, kOptimizerFile, kManifestFile}) {
    EXPECT_EQ(CheckInPartial(name, AFile()), absl::OkStatus());
  }
  EXPECT_EQ(CheckInPartial("notes.txt", AFile()).message(), "dp did not write it");
  EXPECT_FALSE(CheckInPartial(kModelFile, {.kind = FoundFile::Kind::kSymbolicLink}).ok());
}

class CheckWeightsTest : public ::testing::Test {
 protected:
  CheckWeightsTest() {
    removal_.set_job(7);
    removal_.set_weights_path("/out/w");
    removal_.mutable_weights()->set_path("/out/w");
    removal_.mutable_weights()->set_sha256("sha");
    removal_.mutable_weights()->set_bytes(8);
    *removal_.mutable_weights()->mutable_modified_at() = ToProto(kWritten);
  }
  std::string Why(const FoundFile& file) const {
    return std::string(CheckWeights(removal_, file).message());
  }

  v1::FileRemoval removal_;
};

TEST_F(CheckWeightsTest, TheFileOnRecordIsTheJobs) {
  EXPECT_EQ(CheckWeights(removal_, AFile()), absl::OkStatus());
}

TEST_F(CheckWeightsTest, TheSameBytesOfAnotherJobStay) {
  FoundFile later = AFile();
  later.modified_at += absl::Nanoseconds(1);
  EXPECT_THAT(Why(later), HasSubstr("it was written at 2023-11-14T22:13:20.12345679+00:00, and job "
                                    "7 wrote its weights at 2023-11-14T22:13:20.123456789"));
}

TEST_F(CheckWeightsTest, OtherBytesStay) {
  EXPECT_THAT(Why(AFile(9)), HasSubstr("the coordinator's record says 8"));
  removal_.mutable_weights()->set_sha256("other");
  EXPECT_THAT(Why(AFile()), HasSubstr("its SHA-256 is sha"));
}

TEST_F(CheckWeightsTest, AFileWithoutAMarkStays) {
  removal_.mutable_weights()->clear_modified_at();
  EXPECT_THAT(Why(AFile()), HasSubstr("did not record the time of the file"));
  removal_.clear_weights();
  EXPECT_EQ(Why(AFile()), "job 7 has put no weights there");
}

TEST_F(CheckWeightsTest, ASymbolicLinkStays) {
  FoundFile link = AFile();
  link.kind = FoundFile::Kind::kSymbolicLink;
  EXPECT_EQ(Why(link), "it is a symbolic link, and dp wrote a regular file");
}

}  // namespace
}  // namespace dp::trainer
