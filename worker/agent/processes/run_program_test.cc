#include "worker/agent/processes/run_program.h"

#include <fcntl.h>
#include <signal.h>

#include "absl/time/clock.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/testing/fifo.h"

namespace dp::worker {
namespace {

using testing::HasSubstr;
using testing::Optional;

constexpr absl::Duration kLongEnough = absl::Seconds(60);

absl::StatusOr<ProgramEnd> RunShell(const std::string& script, absl::Duration patience) {
  return RunProgram({"sh", "-c", script}, patience);
}

TEST(RunProgramTest, BothStreamsAndTheExitCodeAreTold) {
  const auto end = RunShell("echo one; echo two >&2; exit 3", kLongEnough);
  EXPECT_EQ(end->output, "one\ntwo\n");
  EXPECT_THAT(end->exit_code, Optional(3));
}

TEST(RunProgramTest, TheCodeIsThatOfOneThatClosesItsOutputBeforeItEnds) {
  EXPECT_THAT(RunShell("exec >&- 2>&-; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 4",
                       kLongEnough)
                  ->exit_code,
              Optional(4));
}

TEST(RunProgramTest, OneThatHangsIsKilledWhenTimeIsOverAndWhatItSaidIsKept) {
  TemporaryDirectory directory;
  Fifo fifo(directory.path() + "/fifo");
  const absl::Time start = absl::Now();
  const auto end = RunShell("echo stuck; exec sleep 1000 3>" + fifo.path(), absl::Seconds(2));
  EXPECT_EQ(end->output, "stuck\n");
  EXPECT_EQ(end->exit_code, std::nullopt);
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  EXPECT_EQ(fifo.Read(), "");  // the program is gone
}

TEST(RunProgramTest, WhatIsTooMuchIsReadAndNotKept) {
  const auto end = RunShell("yes | head -c 1000000; exit 5", kLongEnough);
  EXPECT_EQ(end->output.size(), size_t{16} << 10);
  EXPECT_THAT(end->exit_code, Optional(5));
}

TEST(RunProgramTest, AProgramInheritsNoDescriptorButItsStandardStreams) {
  const FileDescriptor leaked(open("/dev/null", O_RDONLY));  // without O_CLOEXEC, as libraries do
  const auto end = RunProgram({DP_RANK_STUB, "inherited"}, kLongEnough);
  EXPECT_THAT(end->output, HasSubstr("descriptors 0 1 2\n"));
}

TEST(RunProgramTest, AProgramThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(RunProgram({"/nowhere/x"}, kLongEnough).status().message()),
              HasSubstr("/nowhere/x: No such file"));
}

}  // namespace
}  // namespace dp::worker
