#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dp/ddp.h"
#include "dp/sync_batch_norm.h"
#include "dp/zero.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Programs that go wrong get an error that says so, and their peers do too.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::ListedModule;
using library::OnRanks;
using ::testing::HasSubstr;

ListedModule Pair() {
  return ListedModule({{"a", std::vector<float>(16, 1)}, {"b", std::vector<float>(16, 2)}});
}

void ExpectInvalid(const std::function<void()>& call, const std::string& text) {
  const DistError error = ErrorOf(call);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr(text));
}

// Rank 1 leaves a step by an exception; both then learn that the group is aborted or alone.
void ExpectAbort(const std::function<void(DistributedDataParallel&, ListedModule&)>& until_thrown) {
  OnRanks(2, "shm", [&](const ProcessGroup& group) {
    ListedModule module = Pair();
    if (group.rank() == 1) {
      try {
        DistributedDataParallel ddp(module, {.process_group = group});
        until_thrown(ddp, module);
        throw std::runtime_error("no such sample");
      } catch (const std::runtime_error&) {
      }
      EXPECT_EQ(ErrorOf([&] { barrier(group); }).kind(), ErrorKind::kAborted);
      return;
    }
    DistributedDataParallel ddp(module, {.process_group = group});
    EXPECT_EQ(ErrorOf([&] {
                ddp.begin_forward();
                for (const size_t p : {1, 0}) ddp.gradient_ready(p);
                ddp.finish_backward();
              }).kind(),
              ErrorKind::kPeerGone);
  });
}

// The module keeps its gradients in the group's memory, which therefore stays.
TEST(MisuseTest, AGroupThatWasLeftIsNamedAndTheGradientsStay) {
  for (const char* backend : {"shm", "gloo"}) {
    OnRanks(2, backend, [](const ProcessGroup& group) {
      ListedModule module = Pair();
      DistributedDataParallel ddp(module, {.process_group = group});
      ddp.begin_forward();
      ddp.gradient_ready(1);
      destroy_process_group(group);
      const std::vector<std::function<void()>> calls = {[&] { ddp.gradient_ready(0); },
                                                        [&] { ddp.finish_backward(); },
                                                        [&] { ddp.begin_forward(); }};
      for (const auto& call : calls) {
        const DistError error = ErrorOf(call);
        EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
        EXPECT_THAT(error.what(), HasSubstr("has left it by destroy_process_group"));
      }
      ddp.zero_grad();
      for (const MutableElements& gradient : ddp.gradients())
        static_cast<float*>(gradient.data)[0] += 1;
    });
  }
}

TEST(MisuseTest, AnExceptionBeforeAnyBucketIsCompleteAbortsTheGroup) {
  ExpectAbort([](DistributedDataParallel& ddp, ListedModule&) {
    ddp.begin_forward();
    ddp.gradient_ready(1);
  });
}

TEST(MisuseTest, AnExceptionBeforeAnyGradientAbortsTheGroup) {
  ExpectAbort([](DistributedDataParallel& ddp, ListedModule&) { ddp.begin_forward(); });
}

TEST(MisuseTest, AnEndAfterAGradientAbortsTheGroup) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    std::optional<DistributedDataParallel> ddp(
        std::in_place, module, DistributedDataParallelOptions{.process_group = group});
    if (group.rank() == 0) return;
    ddp->gradient_ready(1);
    ddp.reset();
    EXPECT_EQ(ErrorOf([&] { barrier(group); }).kind(), ErrorKind::kAborted);
  });
}

TEST(MisuseTest, AnEndBetweenStepsLeavesTheGroupAsItIs) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    { DistributedDataParallel ddp(module, {.process_group = group}); }
    barrier(group);
  });
}

TEST(MisuseTest, NoSyncWithinABackwardCountsForTheNext) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    const auto backward = [&](const std::function<void()>& between) {
      ddp.begin_forward();
      for (const size_t p : {1, 0}) {
        module.Add(p, float(1 + group.rank()));
        ddp.gradient_ready(p);
        if (p == 1) between();
      }
      ddp.finish_backward();
    };
    std::vector<DistributedDataParallel::NoSync> held;
    backward([&] { held.push_back(ddp.no_sync()); });
    EXPECT_EQ(module.gradients[0][0], 1.5f);
    backward([] {});
    EXPECT_EQ(module.gradients[0][0], 1.5f + float(1 + group.rank()));
    held.clear();
    backward([] {});
    EXPECT_EQ(module.gradients[0][0], 1.5f + 3);
  });
}

TEST(MisuseTest, EmptyFunctionsAreNamed) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    ExpectInvalid([&] { ddp.register_comm_hook(nullptr); }, "register_comm_hook of an empty");
    ExpectInvalid([&] { ddp.join(nullptr); }, "join of an empty function");
    ddp.register_comm_hook([](const GradientBucket&) { return std::function<void()>(); });
    ExpectInvalid(
        [&] {
          ddp.begin_forward();
          for (const size_t p : {1, 0}) ddp.gradient_ready(p);
        },
        "the communication hook returned an empty function");
  });
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    ExpectInvalid([&] { ZeroRedundancyOptimizer(ddp, 1, nullptr); },
                  "ZeroRedundancyOptimizer of an empty function");
  });
}

TEST(MisuseTest, OptionsThatDifferAreNamed) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    const DistError error = ErrorOf([&] {
      DistributedDataParallel(
          module, {.process_group = group, .find_unused_parameters = group.rank() == 1});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(),
                HasSubstr("rank 0 has find_unused_parameters false; rank 1 has "
                          "find_unused_parameters true; give every rank the same options"));
  });
}

TEST(MisuseTest, CallsWithinABackwardAreRejected) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    ZeroRedundancyOptimizer zero(ddp, 0, [](const OptimizerPiece&) {});
    ddp.begin_forward();
    ddp.gradient_ready(1);
    EXPECT_EQ(ErrorOf([&] { zero.step(); }).kind(), ErrorKind::kWrongState);
    EXPECT_EQ(ErrorOf([&] { zero.clip_grad_norm(1); }).kind(), ErrorKind::kWrongState);
  });
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    ddp.begin_forward();
    ddp.gradient_ready(1);
    EXPECT_EQ(ErrorOf([&] { ddp.clip_grad_norm(1); }).kind(), ErrorKind::kWrongState);
  });
}

TEST(MisuseTest, NullMemoryIsNamed) {
  const auto null = [](size_t count) {
    return MutableElements(nullptr, count, DataType::kFloat32);
  };
  OnRanks(1, "auto", [&](const ProcessGroup& group) {
    ExpectInvalid([&] { all_reduce(null(2), ReduceOp::kSum, group); },
                  "all_reduce of 2 elements whose memory is null");
    std::vector<float> two(2);
    ExpectInvalid([&] { all_gather(two, null(2), group); }, "all_gather of 2 elements");
    all_reduce(null(0), ReduceOp::kSum, group);
    const std::vector<MutableElements> nothing = {null(3)};
    ExpectInvalid([&] { clip_grad_norm(nothing, 1); }, "clip_grad_norm: an array of 3 elements");
    SyncBatchNorm norm(1, {.process_group = group});
    const std::span<float> missing(static_cast<float*>(nullptr), 2);
    ExpectInvalid([&] { norm.forward(missing, two, 2); }, "SyncBatchNorm: forward of 2 elements");
  });
}

TEST(MisuseTest, MoreChannelsThanMemoryHoldsAreALimit) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    EXPECT_EQ(ErrorOf([&] { SyncBatchNorm(size_t{1} << 61, {.process_group = group}); }).kind(),
              ErrorKind::kLimit);
  });
}

TEST(MisuseTest, SyncBatchNormChecksWhatItIsGiven) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    const auto with = [&](double eps, double momentum) {
      return SyncBatchNorm::Options{.eps = eps, .momentum = momentum, .process_group = group};
    };
    ExpectInvalid([&] { SyncBatchNorm(0, with(0, 0)); }, "0 channels");
    ExpectInvalid([&] { SyncBatchNorm(1, with(-1, 0)); }, "eps is -1");
    ExpectInvalid([&] { SyncBatchNorm(1, with(std::numeric_limits<double>::quiet_NaN(), 0)); },
                  "eps is nan");
    ExpectInvalid([&] { SyncBatchNorm(1, with(0, 2)); }, "momentum is 2");
    SyncBatchNorm norm(2, with(0, 0.1));
    std::vector<float> four = {1, 2, 3, 4}, out(4);
    ExpectInvalid([&] { norm.forward(four, out, size_t{1} << 63); }, "give both samples x");
    EXPECT_EQ(ErrorOf([&] { norm.backward(four, four, out, 2); }).kind(), ErrorKind::kWrongState);
    norm.forward(four, out, 2);
    EXPECT_EQ(ErrorOf([&] { norm.backward(four, four, out, 1); }).kind(), ErrorKind::kWrongState);
    norm.backward(four, four, out, 2);
  });
}

TEST(MisuseTest, AHookThatThrowsNoExceptionOfTheStandardIsTheProgramsFailure) {
  const auto of_hook = [](const CommHook& hook) {
    OnRanks(1, "auto", [&](const ProcessGroup& group) {
      ListedModule module = Pair();
      DistributedDataParallel ddp(module, {.process_group = group});
      ddp.register_comm_hook(hook);
      for (int step = 0; step < 2; ++step) {  // the error stays
        const DistError error = ErrorOf([&] {
          ddp.begin_forward();
          for (const size_t p : {1, 0}) ddp.gradient_ready(p);
          ddp.finish_backward();
        });
        EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
        EXPECT_THAT(error.what(),
                    HasSubstr("rank 0: the communication hook threw an exception of unknown type"));
      }
    });
  };
  of_hook([](const GradientBucket&) -> std::function<void()> { throw 42; });
  of_hook([](const GradientBucket&) -> std::function<void()> { return [] { throw "no"; }; });
}

TEST(MisuseTest, ATrainingThatThrowsNoExceptionOfTheStandardIsTheProgramsFailure) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    const DistError error = ErrorOf([&] { ddp.join([] { throw 42; }); });
    EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
    EXPECT_THAT(error.what(), HasSubstr("the function of join threw an exception of unknown type"));
  });
}

// Where the same values may be those of two modules.
class ViewOf : public Module {
 public:
  explicit ViewOf(ListedModule& module) : module_(module) {}
  std::vector<Parameter> parameters() override { return module_.parameters(); }
  bool move_gradient(size_t index, MutableElements memory) override {
    return module_.move_gradient(index, memory);
  }

 private:
  ListedModule& module_;
};

TEST(MisuseTest, AModuleIsWrappedOnceAtATime) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    ViewOf view(module);
    const auto why = [&](Module& again) {
      const DistError error =
          ErrorOf([&] { DistributedDataParallel(again, {.process_group = group}); });
      EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
      return std::string(error.what());
    };
    {
      DistributedDataParallel first(module, {.process_group = group});
      EXPECT_THAT(why(module), HasSubstr("another DistributedDataParallel wraps the module; end"));
      EXPECT_THAT(why(view),
                  HasSubstr("the gradient of parameter a lies in the memory of another"));
      DistributedDataParallel moved = std::move(first);
      EXPECT_THAT(why(module), HasSubstr("wraps the module"));
    }
    module.moves = false;
    DistributedDataParallel second(module, {.process_group = group});
    EXPECT_THAT(why(module), HasSubstr("wraps the module"));
    DistributedDataParallel copies(view, {.process_group = group});  // keeps gradients elsewhere
  });
}

TEST(MisuseTest, ABeginForwardThatOneRankLeavesOutIsAMismatch) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    ListedModule module({{"a", {1}}}, {{"running", {0}}});
    DistributedDataParallel ddp(module, {.process_group = group});
    const DistError error = ErrorOf([&] {
      if (group.rank() == 0) ddp.begin_forward();
      ddp.gradient_ready(0);
      ddp.finish_backward();
    });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 calls broadcast"));
  });
}

TEST(MisuseTest, ObjectsThatWereMovedFromSaySo) {
  OnRanks(1, "auto", [](const ProcessGroup& group) {
    ListedModule module = Pair();
    DistributedDataParallel ddp(module, {.process_group = group});
    const DistributedDataParallel moved = std::move(ddp);
    EXPECT_EQ(ErrorOf([&] { ddp.begin_forward(); }).kind(), ErrorKind::kWrongState);
    SyncBatchNorm norm(1, {.process_group = group});
    const SyncBatchNorm new_norm = std::move(norm);
    std::vector<float> two(2);
    EXPECT_EQ(ErrorOf([&] { norm.evaluate(two, two, 2); }).kind(), ErrorKind::kWrongState);
  });
}

}  // namespace
}  // namespace dp::distributed
