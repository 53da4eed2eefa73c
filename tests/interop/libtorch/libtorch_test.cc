#include <dp/libtorch.h>
#include <dp/libtorch_sync_batch_norm.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

// dp::libtorch::DistributedDataParallel. The ranks are threads.

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void OnRanks(int size, const std::function<void(const dp::ProcessGroup&)>& body,
             const std::string& backend = "auto") {
  const dp::HashStore store;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const dp::ProcessGroup group(
            {.backend = backend, .store = store, .world_size = size, .rank = rank});
        body(group);
        dp::destroy_process_group(group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
}

// y = left(x) + right(x), or only one of them.
struct Branches : torch::nn::Module {
  explicit Branches(double value) {
    left = register_module("left", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
    right = register_module("right", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
    torch::nn::init::constant_(left->weight, value);
    torch::nn::init::constant_(right->weight, value);
    seen = register_buffer("seen", torch::full({1}, value));
  }
  torch::Tensor forward(const torch::Tensor& x, bool use_left, bool use_right) {
    torch::Tensor y = torch::zeros({1});
    if (use_left) y = y + left(x);
    if (use_right) y = y + right(x);
    return y;
  }

  torch::nn::Linear left{nullptr}, right{nullptr};
  torch::Tensor seen;
};

using Ddp = dp::libtorch::DistributedDataParallel<Branches>;

double GradientOf(const torch::nn::Linear& layer) { return layer->weight.grad().item<double>(); }

TEST(LibtorchTest, EveryReplicaBeginsAsRankZerosAndGradientsAreTheMean) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(group.rank());
    Ddp ddp(module, {.process_group = group});
    EXPECT_EQ(module->left->weight.item<double>(), 0);
    module->seen.fill_(5.0 + group.rank());
    const torch::Tensor x = torch::full({1}, group.rank() == 0 ? 1.0 : 3.0);
    ddp.forward(x, true, true).backward();
    EXPECT_EQ(module->seen.item<double>(), 5);
    EXPECT_EQ(GradientOf(module->left), 2);
    ddp.forward(x, true, true).backward();  // adds, since nothing was zeroed
    EXPECT_EQ(GradientOf(module->right), 4);
  });
}

TEST(LibtorchTest, GradientsThatAnOptimizerRemovedComeBackInPlace) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    Ddp ddp(module, {.process_group = group});
    torch::optim::SGD optimizer(module->parameters(), 1.0);
    const void* memory = nullptr;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      EXPECT_FALSE(module->left->weight.grad().defined());
      ddp.forward(torch::full({1}, 1.0 + 2 * group.rank()), true, true).backward();
      EXPECT_EQ(GradientOf(module->left), 2) << step;
      if (step == 2) memory = module->left->weight.grad().data_ptr();
      if (step == 3) EXPECT_EQ(module->left->weight.grad().data_ptr(), memory);
      optimizer.step();
    }
    EXPECT_EQ(module->left->weight.item<double>(), -8);
  });
}

TEST(LibtorchTest, NoSyncAddsUp) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    Ddp ddp(module, {.process_group = group});
    const torch::Tensor x = torch::full({1}, 1.0 + 2 * group.rank());
    {
      const auto no_sync = ddp.no_sync();
      ddp.forward(x, true, true).backward();
      EXPECT_EQ(GradientOf(module->left), 1 + 2 * group.rank());
    }
    ddp.forward(x, true, true).backward();
    EXPECT_EQ(GradientOf(module->left), 4);
  });
}

TEST(LibtorchTest, AParameterWithoutAGradientIsAnErrorOfBackward) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    Ddp ddp(module, {.process_group = group});
    try {
      ddp.forward(torch::ones({1}), true, false).backward();
      ADD_FAILURE() << "no error";
    } catch (const dp::DistError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no gradient in this backward for right.weight; set "
                                          "find_unused_parameters"));
    }
  });
}

TEST(LibtorchTest, UnusedParametersOfOneRankGetTheOthersMean) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    Ddp ddp(module, {.process_group = group, .find_unused_parameters = true});
    torch::optim::SGD optimizer(module->parameters(), 1.0);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      ddp.forward(torch::full({1}, 4.0), true, group.rank() == 1 && step != 1).backward();
      EXPECT_EQ(GradientOf(module->left), 4);
      EXPECT_THAT(ddp.used_parameters(), ElementsAre(true, step != 1));
      if (step == 1) {
        EXPECT_FALSE(module->right->weight.grad().defined());  // nobody used it
      } else {
        EXPECT_EQ(GradientOf(module->right), 2);
      }
    }
  });
}

TEST(LibtorchTest, EvaluationNeedsNoOtherRank) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(3);
    Ddp ddp(module, {.process_group = group});
    if (group.rank() == 1) {
      const torch::NoGradGuard no_grad;
      EXPECT_EQ(ddp.forward(torch::ones({1}), true, true).item<double>(), 6);
    }
    ddp.forward(torch::ones({1}), true, true).backward();
  });
}

TEST(LibtorchTest, UnevenInputs) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    Ddp ddp(module, {.process_group = group});
    torch::optim::SGD optimizer(module->parameters(), 1.0);
    ddp.join([&] {
      for (int step = 0; step < 1 + group.rank(); ++step) {
        optimizer.zero_grad();
        ddp.forward(torch::full({1}, 2.0), true, true).backward();
        optimizer.step();
      }
    });
    EXPECT_EQ(module->left->weight.item<double>(), -3);
  });
}

TEST(LibtorchTest, TensorsThatCannotBeExchangedAreNamed) {
  try {
    dp::libtorch::elements_of(torch::zeros({2}, torch::kComplexFloat), "buffer seen");
    ADD_FAILURE() << "no error";
  } catch (const dp::DistError& error) {
    EXPECT_EQ(error.kind(), dp::ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("buffer seen is of ComplexFloat"));
  }
  EXPECT_THROW(dp::libtorch::elements_of(torch::zeros({4, 4}).slice(1, 0, 2)), dp::DistError);
}

TEST(LibtorchTest, CollectivesTakeTensors) {
  OnRanks(2, [](const dp::ProcessGroup& group) {
    torch::Tensor tensor = torch::full({3}, group.rank() + 1);
    dp::all_reduce(dp::libtorch::elements_of(tensor), dp::ReduceOp::kSum, group);
    EXPECT_TRUE(tensor.equal(torch::full({3}, 3)));
  });
}

// The weights, outputs and running values are those of one process with the whole batch.
TEST(LibtorchTest, SyncBatchNormIsBatchNormOfAllRanksSamples) {
  const torch::Tensor batch = torch::arange(6 * 3 * 4).mul(0.7).sin().add(5).reshape({6, 3, 4});
  const torch::Tensor slopes = torch::arange(6 * 3 * 4).mul(1.3).cos().reshape({6, 3, 4});
  torch::nn::BatchNorm1d whole(3);
  const auto set = [](torch::Tensor& weight, torch::Tensor& bias) {
    const torch::NoGradGuard no_grad;
    weight.copy_(torch::tensor({2.0, 0.5, 1.0}));
    bias.copy_(torch::tensor({0.0, 1.0, -1.0}));
  };
  set(whole->weight, whole->bias);
  const torch::Tensor input = batch.clone().requires_grad_();
  const torch::Tensor output = whole(input);
  output.backward(slopes);

  OnRanks(2, [&](const dp::ProcessGroup& group) {
    dp::libtorch::SyncBatchNorm norm(torch::nn::BatchNormOptions(3), group);
    set(norm->weight, norm->bias);
    // Rank 0 has two samples, rank 1 four.
    const int64_t begin = group.rank() == 0 ? 0 : 2, end = group.rank() == 0 ? 2 : 6;
    const torch::Tensor mine = batch.slice(0, begin, end).clone().requires_grad_();
    const torch::Tensor got = norm(mine);
    got.backward(slopes.slice(0, begin, end));
    const auto same = [](const torch::Tensor& a, const torch::Tensor& b) {
      return torch::allclose(a, b, 1e-5, 1e-5);
    };
    EXPECT_TRUE(same(got, output.slice(0, begin, end)));
    EXPECT_TRUE(same(mine.grad(), input.grad().slice(0, begin, end)));
    EXPECT_TRUE(same(norm->running_mean, whole->running_mean));
    EXPECT_TRUE(same(norm->running_var, whole->running_var));
    torch::Tensor sum = norm->weight.grad().clone();
    dp::all_reduce(dp::libtorch::elements_of(sum), dp::ReduceOp::kSum, group);
    EXPECT_TRUE(same(sum, whole->weight.grad()));
    norm->eval();
    EXPECT_EQ(norm(batch).sizes(), batch.sizes());  // no other rank is needed
  });
}

// LibTorch has a Gloo of another release in the process, with the same names.
TEST(LibtorchTest, GlooIsDps) {
  OnRanks(
      3,
      [](const dp::ProcessGroup& group) {
        EXPECT_EQ(group.backend(), "gloo");
        const auto module = std::make_shared<Branches>(0);
        Ddp ddp(module, {.process_group = group});
        for (int step = 0; step < 3; ++step) {
          module->zero_grad();
          ddp.forward(torch::full({1}, 3.0 * group.rank()), true, true).backward();
          EXPECT_EQ(GradientOf(module->left), 3);
        }
      },
      "gloo");
}

TEST(LibtorchTest, AWrapperThatWasMovedFromSaysSo) {
  OnRanks(1, [](const dp::ProcessGroup& group) {
    Ddp from(std::make_shared<Branches>(0), {.process_group = group});
    Ddp to = std::move(from);
    const torch::Tensor x = torch::ones({1});
    for (const auto& call :
         std::vector<std::function<void()>>{[&] { from.forward(x, true, true); },
                                            [&] { from.module(); }, [&] { from.buckets(); }}) {
      try {
        call();
        ADD_FAILURE() << "no error";
      } catch (const dp::DistError& error) {
        EXPECT_EQ(error.kind(), dp::ErrorKind::kWrongState);
      }
    }
    to.forward(x, true, true).backward();
  });
}

TEST(LibtorchTest, AWrapperMayEndBeforeItsModule) {
  OnRanks(1, [](const dp::ProcessGroup& group) {
    const auto module = std::make_shared<Branches>(0);
    { const Ddp ddp(module, {.process_group = group}); }
    module->zero_grad();
    module->forward(torch::ones({1}), true, true).backward();
    EXPECT_EQ(GradientOf(module->left), 1);
  });
}

}  // namespace
