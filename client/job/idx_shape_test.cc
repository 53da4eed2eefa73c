#include "client/job/idx_shape.h"

#include <zlib.h>

#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

class IdxShapeTest : public testing::Test {
 protected:
  // The first bytes of a file of images with 28 rows and 30 columns each.
  static std::string Header(char magic = 3) {
    return {0, 0, 8, magic, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 30};
  }
  void Write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  ScratchDir dir_;
  const std::string path_ = (dir_.path() / "train-images-idx3-ubyte").string();
};

TEST_F(IdxShapeTest, AnImageHasTheRowsAndColumnsOfItsFile) {
  Write(Header() + "pixels");
  EXPECT_EQ(IdxSampleShape(dir_.path()), (model::Shape{1, 28, 30}));
}

TEST_F(IdxShapeTest, TheFileMayBeCompressed) {
  const gzFile file = gzopen((path_ + ".gz").c_str(), "wb");
  EXPECT_EQ(gzwrite(file, Header().data(), 16), 16);
  gzclose(file);
  EXPECT_EQ(IdxSampleShape(dir_.path()), (model::Shape{1, 28, 30}));
}

TEST_F(IdxShapeTest, AFileThatIsMissingCutShortOrSomethingElseHasNoShape) {
  EXPECT_FALSE(IdxSampleShape("/no/such/dir").has_value());
  Write(Header().substr(0, 15));
  EXPECT_FALSE(IdxSampleShape(dir_.path()).has_value());
  Write(Header(1));
  EXPECT_FALSE(IdxSampleShape(dir_.path()).has_value());
}

}  // namespace
}  // namespace dp::client
