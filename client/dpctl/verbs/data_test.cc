#include <filesystem>
#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;

class DataTest : public DpctlTest {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_.path() / name, std::ios::binary) << bytes;
    return dir_.path() / name;
  }

  dp::ScratchDir dir_;
};

TEST_F(DataTest, InspectDescribesATableAndTheLinesThatReadIt) {
  const std::string path = Write("a.csv", "x,label\n1,0\n3,1\n5,1\n");
  const Result result = Dpctl("data inspect " + path);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "kind     CSV\n"
            "samples  3\n"
            "shape    1 float32\n"
            "classes  0 (1), 1 (2)\n"
            "mean     3\n"
            "std      1.63299\n"
            "\n"
            "train:\n"
            "  data:\n"
            "    kind: csv\n"
            "    train: [" +
                path +
                "]\n"
                "    csv: {labels: 'label'}\n"
                "    validation: 0.1\n"
                "    mean: 3\n"
                "    std: 1.633\n");
}

TEST_F(DataTest, InspectPrintsJson) {
  const Result result = Dpctl("data inspect -o json " + Write("a.csv", "x,label\n1,0\n3,1\n"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"mean\": [\n    2\n  ]"));
  EXPECT_THAT(result.out, HasSubstr("\"samples\": 2"));
  EXPECT_THAT(result.out, HasSubstr("\"job\": \"train:\\n  data:\\n    kind: csv\\n"));
}

TEST_F(DataTest, ConvertWritesTheNewFile) {
  const std::string from = Write("a.csv", "1,0\n3,1\n"), to = dir_.path() / "a.npy";
  EXPECT_EQ(Dpctl("data convert " + from + " " + to).code, 0);
  EXPECT_TRUE(std::filesystem::exists(to));
  const Result again = Dpctl("data convert " + from + " " + to);
  EXPECT_NE(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("a.npy is there; remove it, or give another name"));
}

TEST_F(DataTest, AMissingFileIsNamed) {
  for (const char* command : {"data inspect /no/such/file", "data convert /no/such/file a.npy"}) {
    const Result result = Dpctl(command);
    EXPECT_EQ(result.code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("/no/such/file"));
  }
}

}  // namespace
}  // namespace dp::ctl
