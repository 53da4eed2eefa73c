#include <cstdlib>
#include <fstream>

#include "client/dpctl/spec_text.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "client/job_defaults.h"
#include "client/job_file.h"
#include "google/protobuf/util/message_differencer.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kJob[] = R"(apiVersion: dp/v1
kind: Job
name: small
env: {A: "1"}
train:
  seed: 12345678901234567890
  data: {dir: /data}
  model: {layers: [{flatten: {}}, {linear: {out: 10}}]}
  optimizer: {sgd: {learningRate: 0.1}}
)";

class SubmitTest : public DpctlTest {
 protected:
  SubmitTest() { std::ofstream(file_) << kJob; }
  ~SubmitTest() override { std::remove(file_.c_str()); }

  const std::string file_ = ::testing::TempDir() +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            std::string(".yaml");
};

TEST_F(SubmitTest, TheJobGoesOutWithItsDefaults) {
  const Result result = Dpctl("submit " + file_ + " --set train.epochs=3");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "job 1 submitted\n");
  EXPECT_EQ(result.err,
            "follow:   dpctl logs -f 1\nstate:    dpctl describe 1\ncancel:   dpctl cancel 1\n");
  const v1::JobSpec& spec = coordinator_.jobs[1].spec();
  EXPECT_EQ(spec.train().epochs(), 3);
  EXPECT_EQ(spec.train().global_batch_size(), 128);
}

TEST_F(SubmitTest, TheNameOfAJobIsItsNumber) {
  EXPECT_EQ(Dpctl("submit -o name " + file_).out, "1\n");
}

TEST_F(SubmitTest, ADryRunPrintsAJobFileThatMeansTheSame) {
  for (const std::string format : {"table", "json"}) {
    out_.str("");
    const Result result = Dpctl("submit --dry-run -o " + format + " " + file_);
    EXPECT_EQ(result.code, 0);
    EXPECT_TRUE(coordinator_.jobs.empty());
    auto original = client::ReadJobFile(file_);
    ASSERT_TRUE(original.ok());
    client::FillDefaults(*original);
    const auto printed = client::ParseJobFile(result.out, "printed");
    ASSERT_TRUE(printed.ok()) << printed.status() << '\n' << result.out;
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(printed->spec, original->spec))
        << result.out;
  }
}

TEST_F(SubmitTest, AWrongJobFileIsAUsageErrorWithItsPlace) {
  std::ofstream(file_, std::ios::app) << "rank: 2\n";
  const Result result = Dpctl("submit " + file_);
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err,
            "dpctl: " + file_ + ":10:1: unknown field 'rank' in the job; did you mean 'ranks'?\n");
  EXPECT_TRUE(coordinator_.jobs.empty());
}

TEST_F(SubmitTest, LayersThatDoNotFitAreAUsageError) {
  const Result result = Dpctl("submit " + file_ + " --set train.model.layers[1].linear.in=100");
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("layer 'linear1' (linear): in is 100, but 'flatten0' gives 784 features"));
}

TEST_F(SubmitTest, AMissingFileIsAUsageError) {
  const Result result = Dpctl("submit /no/such.yaml");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "dpctl: job file '/no/such.yaml' cannot be read\n");
}

}  // namespace
}  // namespace dp::ctl
