#include "worker/trainer/checkpoint/remove_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/own_files.h"
#include "worker/trainer/checkpoint/sha256.h"

namespace dp::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

// Root may remove any file; while this lives, the process is nobody in its place.
class NotRoot {
 public:
  NotRoot() {
    fs::permissions(::testing::TempDir(), fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add);
    EXPECT_TRUE(!root_ || seteuid(kNobody) == 0);
  }
  ~NotRoot() { EXPECT_TRUE(!root_ || seteuid(0) == 0); }

 private:
  static constexpr uid_t kNobody = 65534;
  const bool root_ = geteuid() == 0;
};

// A folder with the files of job 7, and those of others beside them.
class RemoveFilesTest : public ::testing::Test {
 protected:
  RemoveFilesTest() {
    fs::remove_all(folder_);
    fs::create_directories(job_);
    removal_.set_job(7);
    *removal_.mutable_submitted_at() = ToProto(kSubmitted);
    removal_.set_checkpoint_dir(folder_);
  }
  ~RemoveFilesTest() override {
    fs::permissions(job_, fs::perms::owner_all, fs::perm_options::add, ignored_);
    fs::remove_all(folder_, ignored_);
  }

  // Writes a checkpoint as a rank does; returns its directory.
  std::string Checkpoint(int64_t step, uint64_t job = 7) {
    const std::string directory = JobDirectory(folder_, JobId(job), kSubmitted);
    fs::create_directories(directory);
    TrainingState state;
    state.manifest.set_job(job);
    state.manifest.set_step(step);
    state.manifest.set_generation(1);
    state.values = {1, 2};
    const engine::ParameterLayout layout{.parameters = {{.name = "w", .shape = {2}, .size = 2}},
                                         .size = 2};
    return WriteCheckpoint(directory, state, layout).value().path;
  }
  static std::string Write(const std::string& path, const std::string& text = "text") {
    std::ofstream(path) << text;
    return path;
  }
  // Puts the file on record as the weights of job 7.
  std::string Weights(const std::string& text = "weights") {
    const std::string path = Write(folder_ + "/w", text);
    Record(path, text);
    return path;
  }
  void Record(const std::string& written, const std::string& text) {
    struct stat info {};
    ASSERT_EQ(stat(written.c_str(), &info), 0);
    removal_.set_weights_path(folder_ + "/w");
    v1::Weights& weights = *removal_.mutable_weights();
    weights.set_path(folder_ + "/w");
    weights.set_sha256(Sha256Hex(text));
    weights.set_bytes(static_cast<int64_t>(text.size()));
    *weights.mutable_modified_at() = ToProto(absl::TimeFromTimespec(info.st_mtim));
  }

  // Removes; then `removed`, `left` and `failed` have the outcomes, below the folder.
  bool Remove() {
    removed.clear(), left.clear(), failed.clear();
    return RemoveFiles(removal_, [this](const v1::FileOutcome& outcome) {
      const std::string name = fs::path(outcome.path()).lexically_relative(folder_).string();
      if (outcome.kind() == v1::FileOutcome::KIND_REMOVED) removed.push_back(name);
      if (outcome.kind() == v1::FileOutcome::KIND_LEFT) left[name] = outcome.reason();
      if (outcome.kind() == v1::FileOutcome::KIND_FAILED) failed[name] = outcome.reason();
    });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      names.push_back(entry.path().lexically_relative(folder_).string());
    }
    return names;
  }

  static inline const absl::Time kSubmitted = absl::UnixEpoch() + absl::Seconds(1);
  const std::string folder_ = absl::StrCat(::testing::TempDir(), "remove_files_", getpid());
  const std::string label_ = "job-7-19700101T000001.000Z";
  const std::string job_ = folder_ + "/" + label_;
  v1::FileRemoval removal_;
  std::vector<std::string> removed;
  std::map<std::string, std::string> left, failed;
  std::error_code ignored_;
};

TEST_F(RemoveFilesTest, EverythingOfTheJobGoesAndNothingElse) {
  Checkpoint(10);
  Checkpoint(20);
  fs::create_directory(job_ + "/.step-30-generation-1.partial");
  Write(job_ + "/.step-30-generation-1.partial/model.safetensors");
  Write(job_ + "/probe.tmp", "");
  const std::string others = Checkpoint(10, 8);
  Write(folder_ + "/notes.txt");
  Weights();
  Write(folder_ + "/w.old");
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, ElementsAre(label_ + "/.step-30-generation-1.partial", label_ + "/probe.tmp",
                                   label_ + "/step-10-generation-1",
                                   label_ + "/step-20-generation-1", label_, "w"));
  EXPECT_THAT(left, IsEmpty());
  EXPECT_FALSE(fs::exists(job_));
  EXPECT_TRUE(fs::exists(others + "/manifest.json"));
  EXPECT_TRUE(fs::exists(folder_ + "/notes.txt"));
  EXPECT_TRUE(fs::exists(folder_ + "/w.old"));
  EXPECT_FALSE(fs::exists(folder_ + "/w"));
}

TEST_F(RemoveFilesTest, ADryRunSaysTheSameAndRemovesNothing) {
  Checkpoint(10);
  Weights();
  const std::vector<std::string> before = names();
  removal_.set_dry_run(true);
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, ElementsAre(label_ + "/step-10-generation-1", label_, "w"));
  EXPECT_EQ(names(), before);
}

TEST_F(RemoveFilesTest, ARepetitionFindsNothing) {
  Checkpoint(10);
  Weights();
  Remove();
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, IsEmpty());
  removal_.set_checkpoint_dir(folder_ + "/nowhere");
  EXPECT_TRUE(Remove());
}

TEST_F(RemoveFilesTest, ForeignFilesInTheJobsDirectoryStayWithTheDirectoriesAboveThem) {
  const std::string checkpoint = Checkpoint(10);
  Checkpoint(20);
  Write(checkpoint + "/notes.txt");
  Write(job_ + "/best.safetensors");
  EXPECT_TRUE(Remove());
  EXPECT_THAT(left, UnorderedElementsAre(
                        Pair(label_ + "/best.safetensors", "dp did not write it"),
                        Pair(label_ + "/step-10-generation-1/notes.txt", "dp did not write it")));
  EXPECT_THAT(names(), UnorderedElementsAre(label_, label_ + "/best.safetensors",
                                            label_ + "/step-10-generation-1",
                                            label_ + "/step-10-generation-1/notes.txt"));
}

TEST_F(RemoveFilesTest, ACheckpointOfAnotherJobUnderTheJobsNameStays) {
  const std::string others = Checkpoint(10, 8);
  fs::rename(others, job_ + "/step-10-generation-1");
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, IsEmpty());
  EXPECT_THAT(left,
              ElementsAre(Pair(label_ + "/step-10-generation-1", "its manifest names job 8")));
}

TEST_F(RemoveFilesTest, AnEditedFileOfACheckpointStays) {
  const std::string checkpoint = Checkpoint(10);
  const auto bytes = fs::file_size(checkpoint + "/model.safetensors");
  Write(checkpoint + "/model.safetensors", std::string(bytes, 'x'));
  EXPECT_TRUE(Remove());
  EXPECT_THAT(left.at(label_ + "/step-10-generation-1/model.safetensors"),
              HasSubstr("and the manifest says"));
  EXPECT_TRUE(fs::exists(checkpoint + "/model.safetensors"));
  EXPECT_FALSE(fs::exists(checkpoint + "/optimizer.safetensors"));
}

TEST_F(RemoveFilesTest, SymbolicLinksStayAndNobodyFollowsThem) {
  const std::string elsewhere = folder_ + "/elsewhere";
  fs::create_directory(elsewhere);
  const std::string target = Checkpoint(10);
  fs::rename(target, elsewhere + "/kept");
  fs::create_symlink(elsewhere + "/kept", target);
  const std::string checkpoint = Checkpoint(20);
  fs::rename(checkpoint + "/model.safetensors", elsewhere + "/model");
  fs::create_symlink(elsewhere + "/model", checkpoint + "/model.safetensors");
  Weights();
  fs::rename(folder_ + "/w", elsewhere + "/w");
  fs::create_symlink(elsewhere + "/w", folder_ + "/w");
  EXPECT_TRUE(Remove());
  EXPECT_THAT(
      left, UnorderedElementsAre(Pair(label_ + "/step-10-generation-1",
                                      "it is a symbolic link, and dp wrote a directory"),
                                 Pair(label_ + "/step-20-generation-1/model.safetensors",
                                      "it is a symbolic link, and dp wrote a regular file"),
                                 Pair("w", "it is a symbolic link, and dp wrote a regular file")));
  EXPECT_TRUE(fs::exists(elsewhere + "/kept/manifest.json"));
  EXPECT_TRUE(fs::exists(elsewhere + "/model"));
  EXPECT_TRUE(fs::exists(elsewhere + "/w"));
}

TEST_F(RemoveFilesTest, AJobsDirectoryThatIsALinkStays) {
  Checkpoint(10);
  fs::rename(job_, folder_ + "/kept");
  fs::create_directory_symlink(folder_ + "/kept", job_);
  EXPECT_TRUE(Remove());
  EXPECT_THAT(left, ElementsAre(Pair(label_, "it is a symbolic link, and dp wrote a directory")));
  EXPECT_TRUE(fs::exists(folder_ + "/kept/step-10-generation-1/manifest.json"));
}

TEST_F(RemoveFilesTest, EqualWeightsThatAnotherJobPutThereStay) {
  const std::string path = Weights();
  const auto written = fs::last_write_time(path);
  fs::remove(path);
  fs::last_write_time(Write(path, "weights"), written + std::chrono::nanoseconds(1000));
  EXPECT_TRUE(Remove());
  EXPECT_THAT(left.at("w"), HasSubstr("it was written at"));
  EXPECT_TRUE(fs::exists(folder_ + "/w"));
}

TEST_F(RemoveFilesTest, WeightsThatNeverGotToTheirPlaceGoIfTheirNameOrRecordProvesThem) {
  const std::string beside = folder_ + "/w." + label_;
  Write(beside + ".generation-1.tmp", "half of the wei");
  Record(Write(beside + ".generation-2.placing", "weights"), "weights");
  fs::last_write_time(Write(beside + ".generation-3.placing", "of another job"),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  Write(folder_ + "/w.job-8-19700101T000001.000Z.generation-1.tmp");
  Write(folder_ + "/w.generation-1.tmp");
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, ElementsAre(label_, "w." + label_ + ".generation-1.tmp",
                                   "w." + label_ + ".generation-2.placing"));
  EXPECT_THAT(left.at("w." + label_ + ".generation-3.placing"), HasSubstr("it was written at"));
  EXPECT_THAT(left.at("w.generation-1.tmp"), HasSubstr("it names no job"));
  EXPECT_TRUE(fs::exists(folder_ + "/w.job-8-19700101T000001.000Z.generation-1.tmp"));
}

TEST_F(RemoveFilesTest, AFileThatCannotBeRemovedIsAFailureThatARepetitionMends) {
  const std::string checkpoint = Checkpoint(10);
  fs::permissions(checkpoint, fs::perms::owner_write, fs::perm_options::remove);
  {
    const NotRoot not_root;
    EXPECT_FALSE(Remove());
  }
  EXPECT_THAT(failed, ::testing::Contains(Pair(label_ + "/step-10-generation-1/model.safetensors",
                                               HasSubstr("Permission denied"))));
  EXPECT_TRUE(fs::exists(checkpoint + "/manifest.json"));
  fs::permissions(checkpoint, fs::perms::owner_write, fs::perm_options::add);
  EXPECT_TRUE(Remove());
  EXPECT_THAT(removed, ElementsAre(label_ + "/step-10-generation-1", label_));
}

TEST_F(RemoveFilesTest, TheManifestGoesLast) {
  const std::string checkpoint = Checkpoint(10);
  fs::permissions(checkpoint, fs::perms::all);
  fs::permissions(checkpoint + "/optimizer.safetensors", fs::perms::none);
  {
    const NotRoot not_root;
    EXPECT_FALSE(Remove());
  }
  EXPECT_THAT(removed, ElementsAre(label_ + "/step-10-generation-1/model.safetensors"));
  EXPECT_TRUE(fs::exists(checkpoint + "/manifest.json"));
  fs::permissions(checkpoint + "/optimizer.safetensors", fs::perms::owner_read);
  EXPECT_TRUE(Remove());
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(RemoveFilesTest, ManyForeignFilesAreCounted) {
  for (int i = 0; i < 150; ++i) Write(absl::StrCat(job_, "/foreign-", i));
  EXPECT_TRUE(Remove());
  EXPECT_EQ(left.size(), 101u);
  EXPECT_EQ(left.at(label_), "about 50 more files in it stay");
}

TEST(RunRemoveFilesTest, AnArgumentThatNamesNoJobIsWrongUsage) {
  EXPECT_EQ(RunRemoveFiles("dp-trainer", "{}"), 2);
  EXPECT_EQ(RunRemoveFiles("dp-trainer", "no JSON"), 2);
}

}  // namespace
}  // namespace dp::trainer
