#include <string>
#include <utility>
#include <vector>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/backend.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Arguments that joining a group and its operations reject.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using library::Thread;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ProcessGroupErrorTest, WrongArgumentsAreRejectedBeforePeersNotice) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    std::vector<float> data(4), small(3);
    std::vector<double> doubles(4);
    const auto kind = [](const auto& call) { return ErrorOf(call).kind(); };
    EXPECT_EQ(kind([&] { broadcast(data, 2, group); }), ErrorKind::kInvalidArgument);
    EXPECT_EQ(kind([&] { broadcast(data, -1, group); }), ErrorKind::kInvalidArgument);
    EXPECT_EQ(kind([&] { all_gather(small, data, group); }), ErrorKind::kInvalidArgument);
    EXPECT_EQ(kind([&] { all_gather(doubles, std::span(data).first(2), group); }),
              ErrorKind::kInvalidArgument);
    EXPECT_EQ(kind([&] { all_gather(data, std::span(data).first(2), group); }),
              ErrorKind::kInvalidArgument);
    EXPECT_EQ(kind([&] { all_reduce(data, ReduceOp(9), group); }), ErrorKind::kInvalidArgument);
    barrier(group);
  });
}

TEST(ProcessGroupErrorTest, AWorkThatWasMovedFromHasNoOperation) {
  const ProcessGroup group(Thread(HashStore(), 0, 1));
  Work from = barrier_async(group);
  const Work to = std::move(from);
  for (const DistError& error :
       {ErrorOf([&] { from.wait(); }), ErrorOf([&] { (void)from.is_completed(); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::kWrongState);
    EXPECT_THAT(error.what(), HasSubstr("the Work was moved from"));
  }
}

TEST(ProcessGroupErrorTest, SizesBeyondAnyMemoryAreALimit) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    std::vector<float> data(4);
    // Their bytes are 2^64 and 2^65.
    const MutableElements many(data.data(), size_t{1} << 62, DataType::kFloat32);
    const Elements more(data.data(), size_t{1} << 63, DataType::kFloat32);
    const DistError array = ErrorOf([&] { all_reduce(many, ReduceOp::kSum, group); });
    const DistError parts = ErrorOf([&] { all_gather(data, more, group); });
    EXPECT_EQ(array.kind(), ErrorKind::kLimit);
    EXPECT_THAT(array.what(), HasSubstr("an array of 4611686018427387904 elements of 4 bytes is"));
    EXPECT_EQ(parts.kind(), ErrorKind::kLimit);
    EXPECT_THAT(parts.what(), HasSubstr("all_gather: 2 parts of 9223372036854775808 elements are"));
    barrier(group);
  });
}

TEST(ProcessGroupErrorTest, CountsWhoseSumIsBeyondAnyMemoryAreALimit) {
  OnRanks(2, "shm", [](const ProcessGroup& group) {
    std::vector<float> in(4), out(4);
    const std::vector<size_t> wraps = {static_cast<size_t>(-1), 5}, fits = {2, 2};
    const DistError output = ErrorOf([&] { all_to_all(out, in, wraps, fits, group); });
    const DistError input = ErrorOf([&] { all_to_all(out, in, fits, wraps, group); });
    EXPECT_EQ(output.kind(), ErrorKind::kLimit);
    EXPECT_THAT(output.what(), HasSubstr("all_to_all: the sum of output_counts is more than any"));
    EXPECT_THAT(input.what(), HasSubstr("all_to_all: the sum of input_counts is more than any"));
    barrier(group);
  });
}

TEST(ProcessGroupErrorTest, ABackendThatIsNotThereIsNamed) {
  const auto fault = [](const std::string& backend) {
    return ErrorOf([&] { ProcessGroup(Thread(HashStore(), 0, 1, backend)); });
  };
  for (const char* backend : {"nccl", "NCCL", "mpi", "gloo", "hierarchical"}) {
    if (is_backend_available(backend)) continue;
    EXPECT_EQ(fault(backend).kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(fault(backend).what(), HasSubstr("is not part of this build"));
    EXPECT_EQ(std::string(fault(backend).what()).find("mpi", 12) != std::string::npos,
              is_mpi_available());
  }
  EXPECT_EQ(fault("ucc").kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(fault("ucc").what(), HasSubstr("use auto, shm, hierarchical, gloo, nccl or mpi"));
  EXPECT_EQ(is_nccl_available(), is_backend_available("NCCL"));
  EXPECT_EQ(is_mpi_available(), is_backend_available("MPI"));
  EXPECT_TRUE(is_available());
}

TEST(ProcessGroupErrorTest, AutoWithADeviceNeedsNccl) {
  if (is_nccl_available()) GTEST_SKIP() << "built with NCCL";
  InitOptions options = Thread(HashStore(), 0, 1, "auto");
  options.device = 0;
  const DistError fault = ErrorOf([&] { ProcessGroup{options}; });
  EXPECT_EQ(fault.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(fault.what(), HasSubstr("; use auto without a device"));
}

TEST(ProcessGroupErrorTest, BackendMpiNeedsMpirun) {
  if (!is_mpi_available()) GTEST_SKIP() << "built without MPI";
  const DistError fault = ErrorOf([] { ProcessGroup({.backend = "mpi"}); });
  EXPECT_EQ(fault.kind(), ErrorKind::kWrongState);
  EXPECT_THAT(fault.what(), HasSubstr("mpirun did not start this process; start the program by"));
}

TEST(ProcessGroupErrorTest, BackendNamesAreWrittenInAnyCase) {
  EXPECT_EQ(ProcessGroup(Thread(HashStore(), 0, 1, "SHM")).backend(), "shm");
  EXPECT_EQ(ProcessGroup(Thread(HashStore(), 0, 1, "Auto")).backend(), "shm");
  if (!is_gloo_available()) return;
  for (const char* name : {"gloo", "Gloo", "GLOO"})
    EXPECT_EQ(ProcessGroup(Thread(HashStore(), 0, 1, name)).backend(), "gloo");
  EXPECT_EQ(ProcessGroup(Thread(HashStore(), 0, 1, "Hierarchical")).backend(), "hierarchical");
}

TEST(ProcessGroupErrorTest, UndefinedIsNoBackend) {
  for (const char* name : {"UNDEFINED", "undefined"}) {
    const DistError error = ErrorOf([&] { ProcessGroup(Thread(HashStore(), 0, 1, name)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("is unknown; use auto, shm, hierarchical, gloo"));
    EXPECT_FALSE(is_backend_available(name));
  }
}

TEST(ProcessGroupErrorTest, JoiningNamesTheRanksThatDidNotCome) {
  const HashStore store;
  const DistError error =
      ErrorOf([&] { ProcessGroup(Thread(store, 1, 3, "auto", milliseconds(300))); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.missing_ranks(), ElementsAre(0, 2));
  EXPECT_THAT(error.what(), HasSubstr("group 'default', rank 1: connect: ranks 0, 2 did not "
                                      "arrive within 300ms; check that every rank runs, with the"));
}

TEST(ProcessGroupErrorTest, ALateConnectNamesTheLimitThatWasSetAndNotWhatWasLeft) {
  for (const char* backend : {"shm", "gloo", "auto"}) {
    if (!is_backend_available(backend)) continue;
    const auto late = library::OpenGroup(backend, library::OpenHashStore(),
                                         {.rank = 0,
                                          .size = 2,
                                          .timeout = absl::Seconds(6),
                                          .connect_timeout = absl::Milliseconds(-26)},
                                         [](absl::string_view) { return std::nullopt; });
    EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded) << backend;
    EXPECT_THAT(std::string(late.status().message()), EndsWith(" within 6s")) << backend;
  }
}

TEST(ProcessGroupErrorTest, ATimeoutIsPositive) {
  const DistError error =
      ErrorOf([] { ProcessGroup(Thread(HashStore(), 0, 1, "auto", milliseconds(0))); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("timeout is 0 ms"));
}

}  // namespace
}  // namespace dp::distributed
