#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// Runs the tests with a ::testing::TempDir() of this process alone, so that one test program can
// run twice at a time on one machine. A test program that a test starts makes its folder inside
// that one.

namespace {

// googletest looks at TEST_TMPDIR first.
class OwnTempDir {
 public:
  OwnTempDir() : path_(::testing::TempDir() + "dp-test-XXXXXX") {
    DP_CHECK(mkdtemp(path_.data()) != nullptr);
    DP_CHECK(setenv("TEST_TMPDIR", path_.c_str(), /*overwrite=*/1) == 0);
  }
  ~OwnTempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  OwnTempDir(const OwnTempDir&) = delete;
  OwnTempDir& operator=(const OwnTempDir&) = delete;

 private:
  std::string path_;
};

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  const OwnTempDir temp_dir;
  return RUN_ALL_TESTS();
}
