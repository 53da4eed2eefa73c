#include "worker/agent/launch/missing_torch.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::StartsWith;

TEST(MissingTorchTest, TheLastLinesShowIt) {
  EXPECT_TRUE(LacksTorch({"Traceback", "ModuleNotFoundError: No module named 'torch'"}));
  EXPECT_TRUE(LacksTorch({"[rank0]: ModuleNotFoundError: No module named 'torch.distributed'"}));
  EXPECT_FALSE(LacksTorch({"ModuleNotFoundError: No module named 'torchvision'"}));
  EXPECT_FALSE(LacksTorch({}));
}

TEST(MissingTorchTest, TheLineNamesTheInterpreter) {
  EXPECT_THAT(WhyNoTorch("/venv/bin/python3.11"),
              StartsWith("dp: /venv/bin/python3.11 has no module torch; name one that has it"));
  EXPECT_THAT(WhyNoTorch("./train.sh"), StartsWith("dp: the Python that ./train.sh ran has no"));
}

TEST(MissingTorchTest, AProgramIsTheFirstOfItsNameInTheRanksPath) {
  EXPECT_EQ(PathOf({"sh", {"HOME=/", "PATH=/no/such/dir:/bin:/usr/bin"}}), "/bin/sh");
  EXPECT_EQ(PathOf({"/venv/bin/python", {"PATH=/bin"}}), "/venv/bin/python");
  EXPECT_EQ(PathOf({"no-such-program", {"PATH=/bin"}}), "no-such-program");
  EXPECT_EQ(PathOf({"sh", {}}), "sh");
}

TEST(MissingTorchTest, AFolderOfTheNameIsNoProgram) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() + "/sh");
  EXPECT_EQ(PathOf({"sh", {absl::StrCat("PATH=", directory.path(), ":/bin")}}), "/bin/sh");
}

}  // namespace
}  // namespace dp::worker
