#include "worker/trainer/checkpoint/checkpoint_files.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/testing/full_disk.h"

namespace dp::trainer {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Two parameters with a gap between them.
engine::ParameterLayout ALayout() {
  engine::ParameterLayout layout;
  layout.parameters = {{.name = "b", .shape = {2}, .offset = 0, .size = 2},
                       {.name = "w", .shape = {2, 2}, .offset = 16, .size = 4}};
  layout.size = 20;
  return layout;
}

TrainingState AState() {
  TrainingState state{.values = std::vector<float>(20),
                      .optimizer = {{"velocity", std::vector<float>(20)}}};
  for (const size_t at : {0, 1, 16, 17, 18, 19}) {
    state.values[at] = 1.5f * static_cast<float>(at) + 1e-30f;
    state.optimizer[0].values[at] = -1.0f / static_cast<float>(at + 1);
  }
  state.manifest.set_step(40);
  state.manifest.set_generation(2);
  state.manifest.set_epoch_loss_sum(1.0 / 3);
  return state;
}

class CheckpointFilesTest : public ::testing::Test {
 protected:
  CheckpointFilesTest() {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
  }

  const std::string directory_ = ::testing::TempDir() + "checkpoint_files_test";
};

TEST_F(CheckpointFilesTest, WhatIsWrittenIsReadBitByBit) {
  const auto written = WriteCheckpoint(directory_, AState(), ALayout());
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->path, directory_ + "/step-40-generation-2");
  const auto manifest = ReadManifest(written->path, written->sha256);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->epoch_loss_sum(), 1.0 / 3);
  const auto state = ReadTensors(written->path, *manifest, ALayout(), {"velocity"});
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->values, AState().values);
  EXPECT_EQ(state->optimizer[0].values, AState().optimizer[0].values);
}

TEST_F(CheckpointFilesTest, EveryArrayOfAnOptimizerIsKeptApart) {
  TrainingState state = AState();
  state.optimizer = {{"exp_avg", state.values}, {"exp_avg_sq", state.optimizer[0].values}};
  const auto written = *WriteCheckpoint(directory_, state, ALayout());
  const auto manifest = *ReadManifest(written.path, written.sha256);
  const auto read = ReadTensors(written.path, manifest, ALayout(), {"exp_avg", "exp_avg_sq"});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->optimizer[0].values, state.optimizer[0].values);
  EXPECT_EQ(read->optimizer[1].values, state.optimizer[1].values);
  EXPECT_FALSE(ReadTensors(written.path, manifest, ALayout(), {"velocity"}).ok());
}

TEST_F(CheckpointFilesTest, EachFileThatCannotBeWrittenIsAnErrorAndLeavesNothing) {
  engine::ParameterLayout layout;
  layout.parameters = {{.name = "w", .shape = {5000}, .offset = 0, .size = 5000}};
  layout.size = 5000;
  TrainingState state = AState();
  state.values.resize(5000);  // 20 kB
  state.optimizer = {};
  const auto status_below = [&](rlim_t bytes) {
    const FullDisk disk(bytes);
    return WriteCheckpoint(directory_, state, layout).status();
  };
  EXPECT_FALSE(status_below(10'000).ok());
  EXPECT_TRUE(fs::is_empty(directory_));
  state.optimizer = {{"exp_avg", state.values}, {"exp_avg_sq", state.values}};  // 40 kB
  EXPECT_FALSE(status_below(30'000).ok());
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_TRUE(status_below(50'000).ok());
}

TEST_F(CheckpointFilesTest, LeavesNothingBesideTheCheckpoint) {
  fs::create_directory(directory_ + "/.step-40-generation-2.partial");  // left by a crash
  ASSERT_TRUE(WriteCheckpoint(directory_, AState(), ALayout()).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(CheckpointFilesTest, NeverReplacesOneThatIsThere) {
  const auto written = WriteCheckpoint(directory_, AState(), ALayout());
  EXPECT_FALSE(WriteCheckpoint(directory_, AState(), ALayout()).ok());
  EXPECT_TRUE(ReadManifest(written->path, written->sha256).ok());
}

TEST_F(CheckpointFilesTest, EveryByteThatChangesIsNoticed) {
  const auto written = WriteCheckpoint(directory_, AState(), ALayout());
  for (const char* name : {"manifest.json", "model.safetensors", "optimizer.safetensors"}) {
    const std::string path = written->path + "/" + name;
    for (uintmax_t at = 0; at < fs::file_size(path); at += 7) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(at));
      const char byte = static_cast<char>(file.get());
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 1)).flush();
      const auto manifest = ReadManifest(written->path, written->sha256);
      EXPECT_FALSE(manifest.ok() &&
                   ReadTensors(written->path, *manifest, ALayout(), {"velocity"}).ok())
          << name << " byte " << at;
      file.seekp(static_cast<std::streamoff>(at));
      file.put(byte);
    }
  }
}

TEST_F(CheckpointFilesTest, AFileThatIsCutOrMissingIsNamed) {
  const auto written = WriteCheckpoint(directory_, AState(), ALayout());
  const auto manifest = ReadManifest(written->path, written->sha256);
  fs::resize_file(written->path + "/model.safetensors", 20);
  EXPECT_THAT(ReadTensors(written->path, *manifest, ALayout(), {"velocity"}).status().message(),
              HasSubstr("model.safetensors is damaged"));
  fs::remove(written->path + "/model.safetensors");
  EXPECT_EQ(ReadTensors(written->path, *manifest, ALayout(), {"velocity"}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointFilesTest, ADirectoryThatIsMissingIsNamed) {
  const absl::Status status = WriteCheckpoint("/nonexistent", AState(), ALayout()).status();
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/.step-40-generation-2.partial"));
}

TEST_F(CheckpointFilesTest, NamesAreReadBackAndOthersAreNot) {
  for (const bool partial : {false, true}) {
    const auto name = CheckpointName::Parse(CheckpointName{40, 2, partial}.ToString());
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->step, 40);
    EXPECT_EQ(name->generation, 2u);
    EXPECT_EQ(name->partial, partial);
  }
  for (const char* other : {"", "step-40", "step-x-generation-2", "probe.tmp", "lost+found",
                            ".step-40-generation-2", "step-+40-generation-2"}) {
    EXPECT_FALSE(CheckpointName::Parse(other).has_value()) << other;
  }
}

TEST_F(CheckpointFilesTest, EachJobHasADirectoryOfItsOwn) {
  EXPECT_EQ(JobDirectory("/ckpt", JobId(7), absl::FromUnixMillis(1700000000123)),
            "/ckpt/job-7-20231114T221320.123Z");
}

}  // namespace
}  // namespace dp::trainer
