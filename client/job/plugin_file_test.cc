#include "client/job/plugin_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dp::client {
namespace {

using ::testing::HasSubstr;

JobFile JobWithPlugin(const std::string& library) {
  const std::string text =
      "apiVersion: dp/v1\nkind: Job\nname: a\ntrain:\n  model:\n    layers:\n" +
      ("    - plugin: {library: " + library + "}\n");
  return *ParseJobFile(text, "job.yaml");
}

TEST(PluginFileTest, AnElfFileThatCanBeLoadedIsOne) {
  const std::string library = std::filesystem::canonical("/proc/self/exe");
  EXPECT_EQ(CheckPluginFiles(JobWithPlugin(library), true), absl::OkStatus());
}

TEST(PluginFileTest, AnotherFileIsNone) {
  const std::string text = ::testing::TempDir() + "plugin_file_test.so";
  for (const std::string contents : {"short", ""}) {
    std::ofstream(text) << contents;
    const absl::Status status = CheckPluginFiles(JobWithPlugin(text), false);
    EXPECT_EQ(status.message(), "job.yaml:7:25: train.model.layers[0].plugin.library: " + text +
                                    " is no shared library; build one, as docs/plugins.md shows");
  }
}

TEST(PluginFileTest, OnlyRanksOfThisHostNeedTheFileHere) {
  const JobFile job = JobWithPlugin("/nowhere/mine.so");
  EXPECT_EQ(CheckPluginFiles(job, false), absl::OkStatus());
  EXPECT_THAT(CheckPluginFiles(job, true).message(),
              HasSubstr("/nowhere/mine.so does not exist; build it, or correct the path"));
}

}  // namespace
}  // namespace dp::client
