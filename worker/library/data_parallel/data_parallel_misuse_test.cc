#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dp/data_parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/linear_module.h"
#include "worker/library/testing/thrown.h"

// DataParallel of programs that go wrong.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::LinearModule;
using ::testing::HasSubstr;

const std::vector<std::string> kTwoDevices = {"cpu:0", "cpu:1"};

Tensor TwoSamples() { return {{2, 1}, std::vector<float>{1, 2}}; }

TEST(DataParallelMisuseTest, OneThatWasMovedFromSaysSo) {
  LinearModule model(1, 1);
  DataParallel from(model, {.device_ids = kTwoDevices});
  DataParallel to = std::move(from);
  const std::vector<std::function<void()>> calls = {
      [&] { from.forward({TwoSamples()}); }, [&] { from.backward(TwoSamples()); },
      [&] { from.module(); }, [&] { from.device_ids(); }, [&] { from.output_device(); }};
  for (const auto& call : calls) {
    const DistError error = ErrorOf(call);
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("the DataParallel has been moved from"));
  }
  EXPECT_EQ(to.forward({TwoSamples()}).count(), 2u);
}

class NoCopies : public LinearModule {
 public:
  using LinearModule::LinearModule;
  std::unique_ptr<ReplicableModule> replicate() const override { throw 42; }
};

TEST(DataParallelMisuseTest, AReplicaThatThrowsNoExceptionOfTheStandardIsNamed) {
  NoCopies model(1, 1);
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  const DistError error = ErrorOf([&] { parallel.forward({TwoSamples()}); });
  EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
  EXPECT_STREQ(error.what(), "replica 1 on device cpu:1: replicate: an exception of unknown type");
}

}  // namespace
}  // namespace dp::distributed
