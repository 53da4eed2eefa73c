#include "client/dpctl/run/file_places.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// A training whose rank 0 last ran on worker w1 of host h1.
v1::Job ATraining() {
  return Parsed<v1::Job>(R"(id: 7 generation: 2 submitted_at { seconds: 5 }
      spec { queue: "night" train { checkpoint { dir: "/ckpt" } output { weights: "/out/w" } } }
      ranks { worker: "w1" host: "h1" })");
}

v1::ListWorkersResponse Workers(const std::string& text) {
  return Parsed<v1::ListWorkersResponse>(text);
}

constexpr char kBoth[] = R"(
    workers { name: "w1" host: "h1" state: WORKER_STATE_READY }
    workers { name: "w2" host: "h2" state: WORKER_STATE_READY })";

std::string WhyNot(const v1::Job& job, const std::vector<std::string>& hosts,
                   const std::string& workers, const std::string& instead = "") {
  return std::string(WorkersOfFiles(job, hosts, Workers(workers), instead).status().message());
}

TEST(MayHaveFilesTest, OnlyATrainingThatWasPlacedAndNamesFilesHasAny) {
  EXPECT_TRUE(MayHaveFiles(ATraining()));
  v1::Job job = ATraining();
  job.set_generation(0);
  EXPECT_FALSE(MayHaveFiles(job));
  job = ATraining();
  job.mutable_spec()->mutable_train()->Clear();
  EXPECT_FALSE(MayHaveFiles(job));
  job.mutable_spec()->mutable_command();
  EXPECT_FALSE(MayHaveFiles(job));
}

TEST(WorkersOfFilesTest, TheLastWorkerAndOneOnEachEarlierHost) {
  EXPECT_THAT(WorkersOfFiles(ATraining(), {"h1", "h2"}, Workers(kBoth), "").value(),
              ElementsAre("w1", "w2"));
  EXPECT_THAT(WorkersOfFiles(ATraining(), {}, Workers(kBoth), "").value(), ElementsAre("w1"));
}

TEST(WorkersOfFilesTest, AnotherWorkerOfTheHostDoesAsWell) {
  const std::string workers = R"(workers { name: "w1" host: "h1" state: WORKER_STATE_LOST }
                                 workers { name: "w9" host: "h1" state: WORKER_STATE_READY })";
  EXPECT_THAT(WorkersOfFiles(ATraining(), {"h1"}, Workers(workers), "").value(), ElementsAre("w9"));
}

TEST(WorkersOfFilesTest, AWorkerThatIsGoneIsNamedWithThePathsAndTheRemedy) {
  const std::string lost = R"(workers { name: "w1" host: "h1" state: WORKER_STATE_LOST })";
  EXPECT_EQ(
      WhyNot(ATraining(), {"h1"}, lost),
      "job 7: its files /ckpt and /out/w are on worker w1 (host h1), which is lost; wait until "
      "it is back, name a worker that sees the same files with --files-on, or leave out "
      "--with-files, which removes the record alone");
  EXPECT_THAT(WhyNot(ATraining(), {}, ""), HasSubstr("which is unknown"));
  EXPECT_THAT(
      WhyNot(ATraining(), {}, R"(workers { name: "w1" host: "h1" state: WORKER_STATE_DRAINED })"),
      HasSubstr("which is drained"));
  EXPECT_THAT(WhyNot(ATraining(), {"h1", "h3"}, kBoth),
              HasSubstr("on host h3, which has no worker"));
}

TEST(WorkersOfFilesTest, AWorkerOfThatNameOnAnotherHostIsAnotherOne) {
  const std::string moved = R"(workers { name: "w1" host: "h5" state: WORKER_STATE_READY })";
  EXPECT_THAT(WhyNot(ATraining(), {}, moved), HasSubstr("worker w1 (host h1), which is unknown"));
}

TEST(WorkersOfFilesTest, ANamedWorkerReplacesAllOthers) {
  EXPECT_THAT(WorkersOfFiles(ATraining(), {"h3"}, Workers(kBoth), "w2").value(), ElementsAre("w2"));
  EXPECT_EQ(WhyNot(ATraining(), {}, kBoth, "w3"), "no worker has the name 'w3'");
  EXPECT_EQ(WhyNot(ATraining(), {}, R"(workers { name: "w3" state: WORKER_STATE_LEAVING })", "w3"),
            "worker w3 is shutting down; give --files-on a worker that is READY, or wait");
}

TEST(RemovalSpecTest, TheJobRunsTheTrainerOfThatWorkerAndIsNotRestarted) {
  v1::Job job = ATraining();
  job.mutable_weights()->set_sha256("sha");
  const v1::JobSpec spec = RemovalSpec(job, "w1", /*dry_run=*/true);
  EXPECT_EQ(spec.name(), "remove-files-of-7");
  EXPECT_EQ(spec.queue(), "night");
  EXPECT_THAT(spec.constraints(), ElementsAre("worker=w1"));
  EXPECT_TRUE(spec.restart().has_infra());
  EXPECT_EQ(spec.restart().infra() + spec.restart().startup() + spec.restart().hang(), 0);
  ASSERT_EQ(spec.command().argv_size(), 3);
  EXPECT_EQ(spec.command().argv(0) + " " + spec.command().argv(1), "${dp_trainer} remove-files");
  v1::FileRemoval removal;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(spec.command().argv(2), &removal).ok());
  EXPECT_EQ(removal.DebugString(),
            Parsed<v1::FileRemoval>(R"(job: 7 submitted_at { seconds: 5 } checkpoint_dir: "/ckpt"
                weights_path: "/out/w" weights { sha256: "sha" } dry_run: true)")
                .DebugString());
}

TEST(NotFoundAmongTest, PathsOnRecordThatNobodyHasMet) {
  v1::Job job = ATraining();
  job.mutable_weights()->set_path("/out/w");
  const auto on_record = Parsed<v1::ListCheckpointsResponse>(
      R"(checkpoints { path: "/ckpt/a" } checkpoints { path: "/ckpt/b" } checkpoints { path: "/c" })");
  std::vector<FileOnWorker> files(3);
  files[0].outcome.set_path("/ckpt/a");
  files[1].outcome.set_path("/ckpt/b/notes.txt");
  files[2].outcome.set_path("/cc");
  EXPECT_THAT(NotFoundAmong(files, job, on_record), ElementsAre("/c", "/out/w"));
}

TEST(FilesThatStayTest, FilesOfAProgramAndTraces) {
  const auto on_record = Parsed<v1::ListCheckpointsResponse>(R"(checkpoints { path: "/mine" })");
  const auto command = Parsed<v1::Job>("spec { command {} }");
  const auto files = FilesThatStay(command, on_record);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].outcome.kind(), v1::FileOutcome::KIND_LEFT);
  EXPECT_EQ(files[0].outcome.path() + ": " + files[0].outcome.reason(),
            "/mine: the program of the job wrote it, not dp");
  EXPECT_THAT(FilesThatStay(ATraining(), on_record), IsEmpty());
  const auto traced = Parsed<v1::Job>(R"(generation: 1 spec { train { trace: "/trace" } })");
  EXPECT_EQ(FilesThatStay(traced, {}).at(0).outcome.path(), "/trace");
}

}  // namespace
}  // namespace dp::ctl
