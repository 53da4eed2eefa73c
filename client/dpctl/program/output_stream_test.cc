#include "client/dpctl/program/output_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "base/file_descriptor.h"
#include "gtest/gtest.h"

namespace dp::ctl {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
  FileDescriptor read_end, write_end;
};

TEST(OutputStreamTest, WhatIsFlushedArrivesWhole) {
  Pipe pipe;
  OutputStream out(pipe.write_end.get());
  const std::string text(20'000, 'x');  // more than the buffer holds
  out << text << std::flush;
  std::string got(text.size() + 1, '\0');
  EXPECT_EQ(read(pipe.read_end.get(), got.data(), got.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(out.write_error(), 0);
}

TEST(OutputStreamTest, AFullDiskIsRemembered) {
  const FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  OutputStream out(full.get());
  out << "lost" << std::flush;
  EXPECT_FALSE(out.good());
  EXPECT_EQ(out.write_error(), ENOSPC);
}

TEST(OutputStreamTest, AReaderThatLeftIsRemembered) {
  std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.read_end.Close();
  OutputStream out(pipe.write_end.get());
  out << "lost" << std::flush;
  EXPECT_EQ(out.write_error(), EPIPE);
}

}  // namespace
}  // namespace dp::ctl
