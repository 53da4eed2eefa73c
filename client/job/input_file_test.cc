#include "client/job/input_file.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/file_descriptor.h"
#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

constexpr size_t kBytesMax = 1 << 20;

class InputFileTest : public ::testing::Test {
 protected:
  std::string Pipe() const {
    std::string path = scratch_.path() / "pipe";
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  const ScratchDir scratch_;
};

TEST_F(InputFileTest, APipeIsReadToItsEndHoweverLongItsPieces) {
  const std::string pipe = Pipe();
  const std::string piece(100'000, 'x');  // more than a pipe holds
  const std::jthread writer([&] { std::ofstream(pipe) << "one\n" << std::flush << piece; });
  EXPECT_EQ(ReadInput(pipe, kBytesMax, -1).value_or(""), "one\n" + piece);
}

TEST_F(InputFileTest, NoMoreIsReadThanWanted) {
  const std::string file = scratch_.path() / "file";
  std::ofstream(file) << "12345";
  EXPECT_EQ(ReadInput(file, 3, -1).value_or(""), "123");
  EXPECT_EQ(ReadInput(file, 9, -1).value_or(""), "12345");
}

TEST_F(InputFileTest, AReaderOfAPipeCanBeInterruptedBeforeAndWhileSomebodyWrites) {
  const std::string pipe = Pipe();
  const FileDescriptor stop(eventfd(1, EFD_CLOEXEC));
  EXPECT_TRUE(absl::IsCancelled(ReadInput(pipe, kBytesMax, stop.get()).status()));
  const FileDescriptor writer(open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(write(writer.get(), "part", 4), 4);
  EXPECT_TRUE(absl::IsCancelled(ReadInput(pipe, kBytesMax, stop.get()).status()));
}

TEST_F(InputFileTest, TheSystemsReasonIsGiven) {
  EXPECT_EQ(ReadInput("/no/such/file", kBytesMax, -1).status(),
            absl::NotFoundError("No such file or directory"));
  EXPECT_EQ(ReadInput("/", kBytesMax, -1).status(), absl::NotFoundError("Is a directory"));
}

}  // namespace
}  // namespace dp::client
