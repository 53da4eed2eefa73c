#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "dp/ddp.h"
#include "dp/sync_batch_norm.h"
#include "dp/zero.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/library/nccl/nccl_use.h"
#include "worker/library/testing/listed_module.h"
#include "worker/library/testing/placed_module.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Replicas in GPU memory, over a fake of NCCL. Each scenario also runs in the host's memory, and
// gives the same bits there: the fake adds in the order of the other backends.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::Floats;
using library::ListedModule;
using library::OnThread;
using library::Place;
using library::PlacedModule;
using library::Thread;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

using Options = DistributedDataParallelOptions;

// Steps whose backward has the parameters in an order of its own, without that of `unused`.
void Train(DistributedDataParallel& ddp, PlacedModule& module, int steps, size_t unused = 99) {
  for (int step = 0; step < steps; ++step) {
    ddp.zero_grad();
    ddp.begin_forward();
    for (const size_t p : {1, 2, 0}) {
      if (p == unused) continue;
      module.Backward(p, step);
      ddp.gradient_ready(p);
    }
    ddp.finish_backward();
    module.Update();
  }
}

using Scenario = std::function<Floats(const Place&)>;

class NcclDdpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_nccl_available()) GTEST_SKIP() << "built without NCCL";
    setenv("NCCL_RAS_ENABLE", "0", 1);
    library::ReplaceNccl(&nccl_);
  }
  ~NcclDdpTest() override {
    library::ReplaceNccl(nullptr);
    unsetenv("NCCL_RAS_ENABLE");
    EXPECT_EQ(nccl_.live(), 0);
  }

  // The results of three ranks.
  std::vector<Floats> On(bool gpu, const Scenario& scenario) {
    const HashStore store;
    std::vector<Floats> results(3);
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        void* const stream = gpu ? nccl_.MakeStream().value() : nullptr;
        OnThread([&] {
          InitOptions options = Thread(store, rank, 3, gpu ? "nccl" : "auto");
          options.stream = stream;
          const Place place(ProcessGroup(options), gpu ? &nccl_ : nullptr, stream);
          results[size_t(rank)] = scenario(place);
          destroy_process_group(place.group());
        });
        if (gpu) nccl_.FreeStream(stream);
      });
    }
    ranks.clear();
    return results;
  }
  // The scenario has the same result in both memories; returns it.
  std::vector<Floats> OnBoth(const Scenario& scenario) {
    const std::vector<Floats> host = On(false, scenario), gpu = On(true, scenario);
    EXPECT_EQ(gpu, host);
    EXPECT_THAT(gpu, Each(Not(::testing::IsEmpty())));
    return gpu;
  }
  // Three steps with these options.
  std::vector<Floats> TrainOnBoth(Options options, size_t unused = 99) {
    options.bucket_cap_mb = 100.0 / (1 << 20);  // two parameters each
    return OnBoth([&](const Place& place) {
      PlacedModule module(place);
      Options mine = options;
      mine.process_group = place.group();
      DistributedDataParallel ddp(module, mine);
      Train(ddp, module, 3, unused);
      return module.All();
    });
  }

  engine::FakeNccl nccl_{[](const void*, size_t) { return false; }};
};

TEST_F(NcclDdpTest, ReplicasStayEqual) {
  const std::vector<Floats> all = TrainOnBoth({});
  EXPECT_EQ(all[1], all[0]);
  // The mean of 0.37 times 1, 2 and 3, less 0.3 times the steps 0, 1 and 2; rank 0 began at 1.
  EXPECT_FLOAT_EQ(all[0][0], 1 - 0.1f * (3 * 0.74f - 0.3f * 3));
  EXPECT_EQ(all[2].end()[-2], 0);  // the buffer is rank 0's
}

TEST_F(NcclDdpTest, GradientsMayStayTheModules) {
  TrainOnBoth({.gradient_as_bucket_view = false});
  OnBoth([](const Place& place) {
    PlacedModule module(place);
    module.moves = false;
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    Train(ddp, module, 2);
    return module.All();
  });
}

TEST_F(NcclDdpTest, EveryOptionOfABackwardGivesTheHostsBits) {
  TrainOnBoth({.check_reduction = true});
  TrainOnBoth({.find_unused_parameters = true}, 2);
  TrainOnBoth({.static_graph = true}, 0);
  TrainOnBoth({.reduce_type = DataType::kBfloat16});
  TrainOnBoth({.reduce_type = DataType::kFloat64});
}

TEST_F(NcclDdpTest, HooksGiveTheHostsBits) {
  for (const CommHook& hook : {CommHook(fp16_compress_hook), CommHook(bf16_compress_hook)}) {
    OnBoth([hook](const Place& place) {
      PlacedModule module(place);
      DistributedDataParallel ddp(module, {.process_group = place.group()});
      ddp.register_comm_hook(hook);
      Train(ddp, module, 3);
      return module.All();
    });
  }
  OnBoth([](const Place& place) {
    PlacedModule module(place);
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    ddp.register_comm_hook([&place](const GradientBucket& bucket) -> std::function<void()> {
      const std::span<float> all(static_cast<float*>(bucket.gradients.data),
                                 bucket.gradients.count);
      auto sum =
          std::make_shared<Work>(all_reduce_async(bucket.gradients, ReduceOp::kMax, bucket.group));
      return [&place, all, sum] {
        sum->wait();
        place.Run([all] {
          for (float& value : all) value *= 2;
        });
      };
    });
    Train(ddp, module, 2);
    return module.All();
  });
}

TEST_F(NcclDdpTest, BackwardsAccumulateWithoutSync) {
  OnBoth([](const Place& place) {
    PlacedModule module(place);
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    const auto backward = [&](int step) {
      ddp.begin_forward();
      for (const size_t p : {2, 1, 0}) {
        module.Backward(p, step);
        ddp.gradient_ready(p);
      }
      ddp.finish_backward();
    };
    {
      const auto no_sync = ddp.no_sync();
      backward(0);
    }
    Floats all = module.All();
    backward(1);
    const Floats then = module.All();
    all.insert(all.end(), then.begin(), then.end());
    return all;
  });
}

TEST_F(NcclDdpTest, RanksMayHaveUnequalBatches) {
  for (const bool initial : {true, false}) {
    const std::vector<Floats> all = OnBoth([initial](const Place& place) {
      PlacedModule module(place);
      DistributedDataParallel ddp(module, {.process_group = place.group()});
      ddp.join([&] { Train(ddp, module, 1 + 2 * place.rank()); },
               {.divide_by_initial_world_size = initial});
      Floats values;
      for (const auto& some : module.values) {
        const Floats read = place.Read(some);
        values.insert(values.end(), read.begin(), read.end());
      }
      return values;
    });
    EXPECT_EQ(all[0], all[2]);
  }
}

TEST_F(NcclDdpTest, GradientsAreClippedByTheirNorm) {
  const std::vector<Floats> all = OnBoth([](const Place& place) {
    PlacedModule module(place);
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    Train(ddp, module, 1);
    const auto norm = float(ddp.clip_grad_norm(1));
    EXPECT_NEAR(ddp.clip_grad_norm(10), 1, 1e-6);
    Floats all = module.All();
    all.push_back(norm);
    return all;
  });
  EXPECT_GT(all[0].back(), 1);
}

TEST_F(NcclDdpTest, TheFunctionThatClipsTheHostsArraysSaysWhichCallToMake) {
  On(true, [](const Place& place) {
    PlacedModule module(place);
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    const DistError error = ErrorOf([&] { clip_grad_norm(ddp.gradients(), 1); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("call clip_grad_norm of the DistributedDataParallel"));
    return Floats();
  });
}

// Momentum, as kernels of a place.
ZeroRedundancyOptimizer::Update MomentumOn(const Place& place) {
  return [&place](const OptimizerPiece& piece) {
    place.Run([piece] {
      for (size_t i = 0; i < piece.values.size(); ++i) {
        float& momentum = piece.states[0][i];
        momentum = 0.9f * momentum + piece.gradients[i];
        piece.values[i] -= 0.1f * momentum;
      }
    });
  };
}

TEST_F(NcclDdpTest, RanksShareAnOptimizerAndItsStates) {
  OnBoth([](const Place& place) {
    Floats all;
    OptimizerStates states;
    for (const bool resumed : {false, true}) {
      PlacedModule module(place);
      DistributedDataParallel ddp(
          module, {.process_group = place.group(), .bucket_cap_mb = 100.0 / (1 << 20)});
      ZeroRedundancyOptimizer optimizer(ddp, 1, MomentumOn(place));
      if (resumed) optimizer.load(states);
      for (int step = 0; step < 3; ++step) {
        ddp.zero_grad();
        ddp.begin_forward();
        for (const size_t p : {2, 1, 0}) {
          module.Backward(p, step);
          ddp.gradient_ready(p);
        }
        ddp.finish_backward();
        all.push_back(float(optimizer.clip_grad_norm(2)));
        optimizer.step();
      }
      for (const auto& some : module.values) {
        const Floats read = place.Read(some);
        all.insert(all.end(), read.begin(), read.end());
      }
      for (int rank = 0; rank < 3; ++rank) {
        const OptimizerStates whole = optimizer.consolidate(rank);
        if (rank == place.rank()) states = whole;
      }
      for (const auto& [name, of] : states) all.insert(all.end(), of[0].begin(), of[0].end());
    }
    return all;
  });
}

TEST_F(NcclDdpTest, BatchesAreNormalizedOverAllRanks) {
  OnBoth([](const Place& place) {
    const size_t samples = size_t(place.rank());  // none, one and two
    SyncBatchNorm norm(2, {.process_group = place.group()});
    Floats batch, slopes;
    for (size_t i = 0; i < samples * 2 * 3; ++i) {
      batch.push_back(float(i * i) - 2 * float(samples));
      slopes.push_back(float(i) - 4);
    }
    const auto in = place.Of(batch), out = place.Of(Floats(batch.size())),
               evaluated = place.Of(Floats(batch.size())), slope = place.Of(slopes),
               in_grad = place.Of(Floats(batch.size()));
    norm.forward(in, out, samples);
    norm.backward(in, slope, in_grad, samples);
    norm.evaluate(in, evaluated, samples);
    Floats all;
    for (const std::span<const float> some :
         {std::span<const float>(out), std::span<const float>(in_grad),
          std::span<const float>(evaluated), std::span<const float>(norm.weight_grad),
          std::span<const float>(norm.bias_grad), std::span<const float>(norm.running_mean),
          std::span<const float>(norm.running_var)}) {
      const Floats read = place.Read(some);
      all.insert(all.end(), read.begin(), read.end());
    }
    return all;
  });
}

TEST_F(NcclDdpTest, TooFewValuesAreNamed) {
  On(true, [](const Place& place) {
    SyncBatchNorm norm(1, {.process_group = place.group()});
    const size_t samples = place.rank() == 1 ? 1 : 0;
    const auto in = place.Of(Floats(samples)), out = place.Of(Floats(samples));
    const DistError error = ErrorOf([&] { norm.forward(in, out, samples); });
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("all ranks together have 1 values"));
    Floats host(2);
    EXPECT_THAT(ErrorOf([&] { norm.evaluate(host, host, 2); }).what(),
                HasSubstr("SyncBatchNorm: evaluate of the host's memory"));
    return Floats();
  });
}

TEST_F(NcclDdpTest, AStepReturnsWhileTheGpuComputes) {
  HashStore steps;
  steps.set_timeout(std::chrono::seconds(30));
  On(true, [&](const Place& place) {
    PlacedModule module(place);
    module.moves = place.rank() != 1;  // a rank also copies
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    const bool late = place.rank() == 2;
    if (late) steps.get("rank 0 and 1 went on");
    Train(ddp, module, 1);
    if (!late && steps.add("went on", 1) == 2) steps.set("rank 0 and 1 went on", "");
    EXPECT_FLOAT_EQ(module.All()[0], 1 - 0.1f * 0.74f);
    return Floats();
  });
}

TEST_F(NcclDdpTest, OnlyTheGradientsTakeMoreMemory) {
  const HashStore store;
  const Place place(ProcessGroup(Thread(store, 0, 1, "nccl")), &nccl_, nullptr);
  PlacedModule module(place);
  const int before = nccl_.live();
  DistributedDataParallel ddp(module, {.process_group = place.group()});
  EXPECT_EQ(nccl_.live(), before + 1);
  Train(ddp, module, 2);  // the second forward moves the gradients
  EXPECT_EQ(nccl_.live(), before + 1);
  destroy_process_group(place.group());
}

TEST_F(NcclDdpTest, AParameterOfTheHostsMemoryIsNamed) {
  On(true, [](const Place& place) {
    ListedModule module({{"fc.weight", {1}}});
    const DistError error =
        ErrorOf([&] { DistributedDataParallel(module, {.process_group = place.group()}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("parameter fc.weight of the host's memory over backend "
                                        "nccl; copy it to the GPU"));
    return Floats();
  });
}

TEST_F(NcclDdpTest, BuffersMayBeTheHosts) {
  class Counting : public PlacedModule {
   public:
    using PlacedModule::PlacedModule;
    std::vector<Buffer> buffers() override { return {{"batches", {1}, batches}}; }
    std::vector<int64_t> batches = {0};
  };
  On(true, [](const Place& place) {
    Counting module(place);
    module.batches[0] = 5 + place.rank();
    DistributedDataParallel ddp(module, {.process_group = place.group()});
    EXPECT_EQ(module.batches[0], 5);
    return Floats();
  });
}

}  // namespace
}  // namespace dp::distributed
