#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kTwoDevices = {"cpu:0", "cpu:1"};

Tensor Column(std::vector<float> values) {
  const auto rows = static_cast<int64_t>(values.size());
  return {{rows, 1}, std::move(values)};
}
Tensor TwoSamples() { return Column({1, 2}); }

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
  EXPECT_STREQ(error.what(),
               "replica 1 on device cpu:1: replicate: an exception of unknown type; throw a "
               "std::exception, whose text the error then has");
}

struct NoDataset : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(DataParallelMisuseTest, AnExceptionIsThrownWithTheDevicesName) {
  LinearModule model(1, 1);
  model.before_forward = [](const Arguments& part) {
    if (std::get<Tensor>(part[0]).values<float>()[0] == 2) throw NoDataset("no such row");
  };
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  try {
    parallel.forward({Column({1, 2})});
    FAIL() << "did not throw";
  } catch (const DistError& error) {
    EXPECT_STREQ(error.what(), "replica 1 on device cpu:1: forward: no such row");
    EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
    EXPECT_THROW(std::rethrow_if_nested(error), NoDataset);
  }
  EXPECT_EQ(ErrorOf([&] { parallel.backward(Column({1, 1})); }).kind(), ErrorKind::kWrongState);
}

TEST(DataParallelMisuseTest, TheFirstDeviceThatThrewIsNamedAndKindsStay) {
  LinearModule model(1, 1);
  model.before_backward = [](const Tensor&) {
    throw DistError(ErrorKind::kTimeout, "rank 3 did not arrive", {3});
  };
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  parallel.forward({Column({1, 2})});
  const DistError error = ErrorOf([&] { parallel.backward(Column({1, 1})); });
  EXPECT_STREQ(error.what(), "replica 0 on device cpu:0: backward: rank 3 did not arrive");
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.missing_ranks(), ElementsAre(3));
}

TEST(DataParallelMisuseTest, BackwardNeedsAForwardAndItsShape) {
  LinearModule model(1, 1);
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  const auto backward = [&](const Tensor& gradient) {
    return std::string(ErrorOf([&] { parallel.backward(gradient); }).what());
  };
  EXPECT_THAT(backward(Column({1})), HasSubstr("backward has no forward before it"));
  parallel.forward({Column({1, 2})});
  EXPECT_EQ(backward(Column({1})),
            "DataParallel: the gradient has the shape [1, 1], and the output [2, 1]; give a "
            "gradient of the output");
  parallel.backward(Column({1, 1}));
  EXPECT_THAT(backward(Column({1, 1})), HasSubstr("backward has no forward before it"));
}

// A module whose copies are other modules.
class OtherCopies : public LinearModule {
 public:
  explicit OtherCopies(std::function<std::unique_ptr<ReplicableModule>()> copy)
      : LinearModule(1, 1), copy_(std::move(copy)) {}
  std::unique_ptr<ReplicableModule> replicate() const override { return copy_(); }

 private:
  std::function<std::unique_ptr<ReplicableModule>()> copy_;
};

std::string ErrorWithCopies(std::function<std::unique_ptr<ReplicableModule>()> copy) {
  OtherCopies model(std::move(copy));
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  return ErrorOf([&] {
           parallel.forward({Column({1, 2})});
           parallel.backward(Column({1, 1}));
         })
      .what();
}

TEST(DataParallelMisuseTest, CopiesThatAreNoneAreRejected) {
  EXPECT_EQ(ErrorWithCopies([] { return nullptr; }),
            "replica on device cpu:1 is null; let replicate() copy the module");
  EXPECT_EQ(ErrorWithCopies([]() -> std::unique_ptr<ReplicableModule> { throw std::bad_alloc(); }),
            "replica 1 on device cpu:1: replicate: std::bad_alloc");
  EXPECT_THAT(
      ErrorWithCopies([] {
        auto other = std::make_unique<LinearModule>(1, 1);
        other->bias_gradient.clear();
        return other;
      }),
      HasSubstr("replica on device cpu:1: parameter 'bias' of float32 [1] has no gradient"));
}

TEST(DataParallelMisuseTest, CopiesWithOtherParametersAreRejected) {
  class Renamed : public LinearModule {
   public:
    Renamed() : LinearModule(1, 1) {}
    std::vector<Parameter> parameters() override {
      std::vector<Parameter> all = LinearModule::parameters();
      all[1].name = "offset";
      return all;
    }
  };
  EXPECT_EQ(
      ErrorWithCopies([] { return std::make_unique<Renamed>(); }),
      "replica on device cpu:1: parameter 1 is 'offset' of float32 [1], and that of the module "
      "is 'bias' of float32 [1]; let replicate() copy the module");
}

TEST(DataParallelMisuseTest, CopiesThatShareGradientsAreRejected) {
  class Shallow : public LinearModule {
   public:
    Shallow() : LinearModule(1, 1) {}
    std::unique_ptr<ReplicableModule> replicate() const override {
      return std::make_unique<Shallow>(*this);
    }
    std::vector<Parameter> parameters() override { return {{"shared", {1}, weight, *shared_}}; }

   private:
    std::shared_ptr<std::vector<float>> shared_ = std::make_shared<std::vector<float>>(1);
  };
  Shallow model;
  DataParallel parallel(model, {.device_ids = kTwoDevices});
  parallel.forward({Column({1, 2})});
  EXPECT_STREQ(ErrorOf([&] {
                 parallel.backward(Column({1, 1}));
               }).what(),
               "replica on device cpu:1: parameter 0 has its gradient in the module's memory; let "
               "replicate() give each copy its own");
}

TEST(DataParallelMisuseTest, InputsThatCannotBeSplitAreRejected) {
  const auto said = [](const Arguments& inputs, int dim = 0) {
    return std::string(ErrorOf([&] { scatter(inputs, kTwoDevices, dim); }).what());
  };
  EXPECT_EQ(
      said({Column({1, 2}), Column({1})}),
      "scatter: argument 1 has 1 samples in dimension 0, and one before it 2; give as many in "
      "all tensors, or a whole tensor as std::any");
  EXPECT_EQ(said({Column({1, 2})}, 2),
            "scatter: argument 0 of the shape [2, 1] has no dimension 2; give another dim, or the "
            "whole tensor as std::any");
  EXPECT_EQ(ErrorOf([] { scatter({}, std::vector<std::string>{"tpu:0"}); }).kind(),
            ErrorKind::kUnsupported);
}

TEST(DataParallelMisuseTest, StepsWithoutAModuleAreRejected) {
  const OtherCopies model([] { return nullptr; });
  EXPECT_STREQ(ErrorOf([&] { replicate(model, kTwoDevices); }).what(),
               "replica on device cpu:0 is null; let replicate() copy the module");
  LinearModule first(1, 1);
  const std::vector<ReplicableModule*> modules = {&first, nullptr};
  const std::vector<Arguments> inputs(2, {TwoSamples()});
  EXPECT_EQ(ErrorOf([&] { parallel_apply(modules, inputs, kTwoDevices); }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace dp::distributed
