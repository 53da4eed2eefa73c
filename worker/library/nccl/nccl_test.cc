#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/collectives/testing/fake_nccl.h"
#include "worker/library/nccl/nccl_use.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Groups over GPU memory, whose ranks are threads over a fake of NCCL.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using library::OnThread;
using library::Thread;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_nccl_available()) GTEST_SKIP() << "built without NCCL";
    setenv("NCCL_RAS_ENABLE", "0", 1);
    library::ReplaceNccl(&nccl_);
  }
  ~NcclTest() override {
    library::ReplaceNccl(nullptr);
    for (const char* name : {"NCCL_RAS_ENABLE", "NCCL_BLOCKING_WAIT", "LOCAL_RANK"}) unsetenv(name);
  }

  // Memory of the device is only what the group allocates.
  engine::FakeNccl nccl_{[](const void*, size_t) { return false; }};
};

// Floats in the group's GPU memory, which the fake lets the test read.
std::span<float> OnGpu(const std::vector<float>& values, const ProcessGroup& group) {
  const std::span<float> memory = allocate<float>(values.size(), group);
  std::copy(values.begin(), values.end(), memory.begin());
  return memory;
}

TEST_F(NcclTest, EveryVerbTakesGpuMemory) {
  OnRanks(2, "nccl", [](const ProcessGroup& group) {
    const auto mine = float(group.rank() + 1);
    EXPECT_EQ(get_backend(group), "nccl");
    const auto data = OnGpu({mine, 3}, group), part = OnGpu({0}, group),
               both = OnGpu({0, 0}, group);
    all_reduce(data, ReduceOp::kSum, group);
    EXPECT_THAT(data, ElementsAre(3, 6));
    broadcast(data.first(1), 1, group);
    data[0] = mine;
    reduce(data.first(1), 1, ReduceOp::kMax, group);
    EXPECT_EQ(data[0], group.rank() == 1 ? 2 : 1);
    data[0] = mine;
    all_gather(both, data.first(1), group);
    EXPECT_THAT(both, ElementsAre(1, 2));
    reduce_scatter(part, both, ReduceOp::kSum, group);
    EXPECT_EQ(part[0], 2 * mine);
    const std::span<float> none;
    gather(group.rank() == 0 ? both : none, part, 0, group);
    if (group.rank() == 0) {
      EXPECT_THAT(both, ElementsAre(2, 4));
    }
    scatter(part, group.rank() == 0 ? both : none, 0, group);
    EXPECT_EQ(part[0], 2 * mine);
    data[1] = 10 * mine;
    all_to_all(both, data, group);
    EXPECT_THAT(both, group.rank() == 0 ? ElementsAre(1, 2) : ElementsAre(10, 20));
    if (group.rank() == 0) {
      send(data, 1, 7, group);
    } else {
      recv(both, 0, 7, group);
      EXPECT_THAT(both, ElementsAre(1, 10));
    }
    barrier(group);
    monitored_barrier(group);
  });
}

TEST_F(NcclTest, ThreeVerbsTakeTheHostsMemory) {
  OnRanks(2, "nccl", [](const ProcessGroup& group) {
    std::vector<int32_t> sum = {1, group.rank()}, gathered(4);
    all_reduce(sum, ReduceOp::kSum, group);
    EXPECT_THAT(sum, ElementsAre(2, 1));
    all_gather(gathered, std::vector<int32_t>{group.rank(), 7}, group);
    EXPECT_THAT(gathered, ElementsAre(0, 7, 1, 7));
    std::vector<float> from_one(1, float(group.rank()));
    broadcast(from_one, 1, group);
    EXPECT_EQ(from_one[0], 1);
  });
}

TEST_F(NcclTest, OtherVerbsNameTheMemoryAndTheRemedy) {
  OnRanks(2, "nccl", [](const ProcessGroup& group) {
    std::vector<float> host(2), part(1);
    const std::span<float> gpu = OnGpu({0, 0}, group);
    const std::string prefix = "group 'default', rank " + std::to_string(group.rank()) + ": ";
    const auto expect = [&](const std::string& verb, const std::function<void()>& call) {
      const DistError error = ErrorOf(call);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(error.what(), prefix + verb +
                                  " of the host's memory over backend nccl; copy it to the GPU, or "
                                  "make a group of backend gloo by new_group");
    };
    expect("reduce", [&] { reduce(host, 0, ReduceOp::kSum, group); });
    expect("reduce_scatter", [&] { reduce_scatter(part, host, ReduceOp::kSum, group); });
    const std::span<float> none;
    expect("gather", [&] { gather(group.rank() == 0 ? host : none, part, 0, group); });
    expect("scatter", [&] { scatter(part, group.rank() == 0 ? host : none, 0, group); });
    std::vector<float> other(2);
    expect("all_to_all", [&] { all_to_all(host, other, group); });
    expect("send", [&] { send(host, 1 - group.rank(), 0, group); });
    expect("recv", [&] { recv(host, 1 - group.rank(), 0, group); });
    const DistError mixed = ErrorOf([&] { all_gather(gpu, part, group); });
    EXPECT_EQ(mixed.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(mixed.what(), prefix +
                                "all_gather of a GPU's memory and of the host's; copy one of the "
                                "arrays, since a call takes one kind of memory");
    barrier(group);  // the group goes on
  });
}

TEST_F(NcclTest, MemoryOfAnotherGpuIsNamed) {
  OnRanks(2, "nccl", [this](const ProcessGroup& group) {
    EXPECT_TRUE(nccl_.UseDevice(1).ok());
    auto* const other = reinterpret_cast<float*>(nccl_.Allocate(8).value());
    const DistError error =
        ErrorOf([&] { all_reduce(std::span(other, 2), ReduceOp::kSum, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("all_reduce of memory of device 1, and the group is on "
                                        "device 0; copy it there, or join with option device 1"));
    nccl_.Free(reinterpret_cast<uint8_t*>(other));
  });
}

TEST_F(NcclTest, MessagesGoRoundARingOfThreeByTag) {
  OnRanks(3, "nccl", [](const ProcessGroup& group) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    const auto mine = float(group.rank());
    const auto sent = OnGpu({mine, 10 + mine}, group), got = OnGpu({-1, -1}, group);
    std::vector<Work> works;
    works.push_back(isend(sent.first(1), next, 1, group));
    works.push_back(isend(sent.last(1), next, 2, group));
    works.push_back(irecv(got.last(1), previous, 2, group));
    works.push_back(irecv(got.first(1), previous, 1, group));
    for (Work& work : works) work.wait();
    barrier(group);
    EXPECT_THAT(got, ElementsAre(previous, 10 + previous));
  });
}

TEST_F(NcclTest, MessagesThatDoNotFitAreRejectedOnBothRanks) {
  OnRanks(2, "nccl", [](const ProcessGroup& group) {
    const auto data = OnGpu({1, 2}, group);
    const DistError error = ErrorOf([&] {
      if (group.rank() == 0) {
        send(data, 1, 0, group);
      } else {
        recv(data.first(1), 0, 0, group);
      }
    });
    EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 sends 2 float32, rank 1 expects 1 float32"));
  });
}

TEST_F(NcclTest, ARankThatDoesNotReceiveIsNamed) {
  HashStore steps;
  steps.set_timeout(std::chrono::seconds(30));
  OnRanks(
      2, "nccl",
      [&](const ProcessGroup& group) {
        if (group.rank() == 1) return void(steps.get("rank 0 gave up"));
        const auto data = OnGpu({1}, group);
        const DistError late = ErrorOf([&] { send(data, 1, 3, group); });
        EXPECT_EQ(late.kind(), ErrorKind::kTimeout);
        EXPECT_THAT(late.missing_ranks(), ElementsAre(1));
        EXPECT_THAT(late.what(), HasSubstr("send to rank 1, tag 3: rank 1 did not arrive"));
        steps.set("rank 0 gave up", "");
      },
      milliseconds(200));
}

TEST_F(NcclTest, AllocatedMemoryIsZerosAndGoesWithTheGroup) {
  OnRanks(2, "nccl", [](const ProcessGroup& group) {
    const auto memory = allocate<float>(3'000'000, group);  // more than is copied at a time
    EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](float value) { return value == 0; }));
    EXPECT_TRUE(allocate<float>(0, group).empty());
  });
  EXPECT_EQ(nccl_.live(), 0);
}

TEST_F(NcclTest, OneRankAloneTakesBothMemories) {
  OnRanks(1, "nccl", [](const ProcessGroup& group) {
    const auto data = OnGpu({4}, group), gathered = OnGpu({0}, group);
    all_reduce(data, ReduceOp::kSum, group);
    all_gather(gathered, data, group);
    EXPECT_EQ(gathered[0], 4);
    std::vector<float> host = {5};
    all_reduce(host, ReduceOp::kSum, group);
    EXPECT_EQ(host[0], 5);
  });
}

// Ranks that each compute on a stream of their own.
class NcclStreamTest : public NcclTest {
 protected:
  NcclStreamTest() { steps_.set_timeout(std::chrono::seconds(30)); }

  // Runs `body` on each rank, whose group computes on `stream`.
  void OnStreams(const std::function<void(const ProcessGroup&, void* stream)>& body,
                 milliseconds timeout = std::chrono::minutes(1)) {
    const HashStore store;
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        OnThread([&] {
          void* const stream = nccl_.MakeStream().value();
          {
            InitOptions options = Thread(store, rank, 2, "nccl", timeout);
            options.stream = stream;
            const ProcessGroup group(options);
            body(group, stream);
          }
          nccl_.FreeStream(stream);
        });
      });
    }
  }
  bool IsIdle(void* stream) {
    const engine::NcclApi::Event event = nccl_.Record(stream).value();
    const bool passed = nccl_.Passed(event).value();
    nccl_.FreeEvent(event);
    return passed;
  }

  HashStore steps_;  // between the ranks
};

TEST_F(NcclStreamTest, AWaitOrdersTheResultOnTheStreamAndReturns) {
  OnStreams([this](const ProcessGroup& group, void* stream) {
    const auto data = OnGpu({1}, group);
    if (group.rank() == 1) steps_.get("rank 0 went on");
    all_reduce(data, ReduceOp::kSum, group);
    if (group.rank() == 0) {
      EXPECT_FALSE(IsIdle(stream));
      steps_.set("rank 0 went on", "");
    }
    barrier(group);  // blocks
    EXPECT_EQ(data[0], 2);
    EXPECT_TRUE(IsIdle(stream));
    destroy_process_group(group);
  });
}

TEST_F(NcclStreamTest, AWorkThatNobodyWaitsForIsOrderedToo) {
  OnStreams([this](const ProcessGroup& group, void* stream) {
    const auto data = OnGpu({1}, group);
    if (group.rank() == 1) steps_.get("rank 0 went on");
    { const Work work = all_reduce_async(data, ReduceOp::kSum, group); }
    if (group.rank() == 0) {
      EXPECT_FALSE(IsIdle(stream));
      steps_.set("rank 0 went on", "");
    }
    destroy_process_group(group);
  });
}

TEST_F(NcclStreamTest, AnErrorShowsInALaterCall) {
  OnStreams(
      [this](const ProcessGroup& group, void*) {
        barrier(group);
        if (group.rank() == 1) return void(steps_.get("rank 0 met rank 1"));  // without leaving
        steps_.set("rank 0 met rank 1", "");
        const auto data = OnGpu({1}, group);
        const DistError error = ErrorOf([&] {
          all_reduce(data, ReduceOp::kSum, group);
          barrier(group);
        });
        EXPECT_EQ(error.kind(), ErrorKind::kPeerGone);
        EXPECT_THAT(error.what(), HasSubstr("all_reduce 2: rank 1 went away"));
      },
      std::chrono::seconds(10));
}

TEST_F(NcclStreamTest, ABlockingWaitAwaitsTheEndOrTheTimeLimit) {
  setenv("NCCL_BLOCKING_WAIT", "1", 1);
  OnStreams(
      [this](const ProcessGroup& group, void*) {
        const auto data = OnGpu({1}, group);
        all_reduce(data, ReduceOp::kSum, group);
        EXPECT_EQ(data[0], 2);
        if (group.rank() == 1) return void(steps_.get("rank 0 gave up"));
        const DistError late = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, group); });
        EXPECT_EQ(late.kind(), ErrorKind::kTimeout);
        EXPECT_THAT(late.missing_ranks(), ElementsAre(1));
        steps_.set("rank 0 gave up", "");
      },
      milliseconds(500));
}

TEST_F(NcclStreamTest, AWaitOrdersAMessageOnTheStreamOnceBothRanksHaveCalledIt) {
  OnStreams([this](const ProcessGroup& group, void* stream) {
    const auto data = OnGpu({float(group.rank() + 1)}, group);
    if (group.rank() == 0) {
      const auto computing = nccl_.Occupy(stream);
      send(data, 1, 0, group);
      data[0] = 5;  // the stream still computes it
      EXPECT_FALSE(IsIdle(stream));
      steps_.get("rank 1 went on");
      nccl_.Finish(computing);
    } else {
      recv(data, 0, 0, group);
      EXPECT_FALSE(IsIdle(stream));
      steps_.set("rank 1 went on", "");
      barrier(group);
      EXPECT_EQ(data[0], 5);
    }
    if (group.rank() == 0) barrier(group);
    destroy_process_group(group);
  });
}

TEST_F(NcclStreamTest, ABlockingWaitForAMessageAwaitsItsEnd) {
  setenv("NCCL_BLOCKING_WAIT", "1", 1);
  OnStreams([](const ProcessGroup& group, void*) {
    const auto data = OnGpu({float(group.rank() + 1)}, group);
    if (group.rank() == 0) {
      send(data, 1, 0, group);
    } else {
      recv(data, 0, 0, group);
      EXPECT_EQ(data[0], 1);
    }
    destroy_process_group(group);
  });
  // The streams of the ranks are freed, and so is everything of their groups.
  EXPECT_EQ(nccl_.live(), 0);
}

// Errors of joining, before any peer is asked.
TEST_F(NcclTest, BlockingWaitAndAsyncErrorHandlingAreRejectedTogether) {
  setenv("NCCL_BLOCKING_WAIT", "1", 1);
  setenv("NCCL_ASYNC_ERROR_HANDLING", "1", 1);
  const HashStore store;
  const DistError error = ErrorOf([&] { ProcessGroup(Thread(store, 0, 2, "nccl")); });
  unsetenv("NCCL_ASYNC_ERROR_HANDLING");
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("NCCL_BLOCKING_WAIT and NCCL_ASYNC_ERROR_HANDLING are both"));
}

TEST_F(NcclTest, AWrongLocalRankIsNamed) {
  setenv("LOCAL_RANK", "first", 1);
  const HashStore store;
  const DistError error = ErrorOf([&] { ProcessGroup(Thread(store, 0, 2, "nccl")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("LOCAL_RANK is 'first'"));
}

TEST_F(NcclTest, AProcessWithoutAGpuIsToldSoAndWhichBackendsNeedNone) {
  nccl_.HideGpus();
  const HashStore store;
  InitOptions options = Thread(store, 0, 2, "auto", milliseconds(500));
  options.device = 3;
  init_process_group(Thread(HashStore(), 0, 1, "shm"));
  const std::vector<int> ranks = {0};
  const std::vector<std::function<void()>> calls = {
      [&] { ProcessGroup(Thread(store, 0, 2, "nccl", milliseconds(500))); },
      [&] { ProcessGroup{options}; }, [&] { new_group(ranks, "nccl"); }};
  for (const auto& call : calls) {
    const DistError error = ErrorOf(call);
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("backend nccl cannot be used: this process sees no GPU "
                                        "(CUDA: cudaGetDeviceCount: no driver); nvidia-smi and "
                                        "CUDA_VISIBLE_DEVICES list them; backends auto, shm and "
                                        "gloo need no GPU"));
  }
  destroy_process_group();
}

TEST_F(NcclTest, AutoWithADeviceIsNcclAndRanksThatShareOneAreNamed) {
  nccl_.PutOnOneHost();
  const HashStore store;
  const auto join = [&](int rank, int device) {
    InitOptions options = Thread(store, rank, 2, "auto");
    options.device = device;
    const ProcessGroup group(options);
    EXPECT_EQ(group.backend(), "nccl");
    destroy_process_group(group);
  };
  const auto both = [&](const std::function<void(int rank)>& rank) {
    std::jthread one([&] { OnThread([&] { rank(1); }); });
    OnThread([&] { rank(0); });
  };
  both([&](int rank) { join(rank, rank); });
  both([&](int rank) {
    const DistError error = ErrorOf([&] { join(rank, 0); });
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("ranks 0, 1 share the GPU gpu 0 of one host"));
  });
}

}  // namespace
}  // namespace dp::distributed
