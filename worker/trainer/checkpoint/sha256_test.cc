#include "worker/trainer/checkpoint/sha256.h"

#include <fcntl.h>

#include <fstream>

#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::trainer {
namespace {

// The examples of FIPS 180-4.
TEST(Sha256Test, GivesWhatTheStandardSays) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, AFileOfSeveralPiecesHasTheSameHash) {
  const std::string path = ::testing::TempDir() + "sha256_test";
  const std::string contents((5 << 20) / 2, 'x');
  std::ofstream(path) << contents;
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Sha256HexOfFile(file.get(), path).value(), Sha256Hex(contents));
  EXPECT_THAT(Sha256HexOfFile(-1, path).status().message(), ::testing::HasSubstr(path));
}

}  // namespace
}  // namespace dp::trainer
