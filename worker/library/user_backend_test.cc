#include <atomic>
#include <cstring>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "dp/distributed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/library/testing/rank_threads.h"
#include "worker/library/testing/thrown.h"

// Backends as a program brings them, by the public interface alone.

namespace dp::distributed {
namespace {

using library::ErrorOf;
using library::OnRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ranks leave their pieces in the store.
class ByStore : public Backend {
 public:
  explicit ByStore(const BackendPlace& place) : place_(place) {
    place_.store.set_timeout(std::chrono::milliseconds(50));
  }

  void exchange(std::span<const std::span<const std::byte>> sent,
                std::span<const std::span<std::byte>> received) override {
    const std::string prefix = std::to_string(exchanges_++) + "/";
    for (size_t r = 0; r < sent.size(); ++r)
      if (!sent[r].empty())
        place_.store.set(prefix + KeyOf(place_.rank, static_cast<int>(r)),
                         {reinterpret_cast<const char*>(sent[r].data()), sent[r].size()});
    for (size_t r = 0; r < received.size(); ++r) {
      if (received[r].empty()) continue;
      const std::string piece = Await(prefix + KeyOf(static_cast<int>(r), place_.rank));
      if (piece.size() != received[r].size()) throw std::runtime_error("a piece of another size");
      std::memcpy(received[r].data(), piece.data(), piece.size());
    }
  }

  void abort() noexcept override { aborted_ = true; }

 private:
  static std::string KeyOf(int from, int to) {
    return std::to_string(from) + " to " + std::to_string(to);
  }

  std::string Await(const std::string& key) {
    for (;;) {
      if (aborted_) throw std::runtime_error("aborted");
      try {
        return place_.store.get(key);
      } catch (const DistError& error) {
        if (error.kind() != ErrorKind::kTimeout) throw;
      }
    }
  }

  BackendPlace place_;
  int exchanges_ = 0;
  std::atomic<bool> aborted_ = false;
};

class UserBackendTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_backend("ByStore",
                     [](const BackendPlace& place) { return std::make_unique<ByStore>(place); });
  }
};

TEST_F(UserBackendTest, ItRunsEveryCollective) {
  OnRanks(3, "bystore", [](const ProcessGroup& group) {
    EXPECT_EQ(group.backend(), "bystore");
    const int rank = group.rank();
    std::vector<int32_t> data = {rank, 1}, gathered(6), part(1), all(rank == 1 ? 6 : 0);
    all_reduce(data, ReduceOp::kSum, group);
    EXPECT_THAT(data, ElementsAre(3, 3));
    broadcast(std::span(data).first(1), 0, group);
    all_gather(gathered, std::vector<int32_t>{rank, -rank}, group);
    EXPECT_THAT(gathered, ElementsAre(0, 0, 1, -1, 2, -2));
    reduce_scatter(part, std::vector<int32_t>{1, 2, rank}, ReduceOp::kMax, group);
    EXPECT_THAT(part, ElementsAre(rank == 0 ? 1 : 2));
    gather(all, data, 1, group);
    barrier(group);
  });
}

// Rank 1 fails once the others have heard from it.
class ByStoreOfRank0 : public ByStore {
 public:
  explicit ByStoreOfRank0(const BackendPlace& place) : ByStore(place), rank_(place.rank) {}

  void exchange(std::span<const std::span<const std::byte>> sent,
                std::span<const std::span<std::byte>> received) override {
    ByStore::exchange(sent, received);
    if (rank_ == 1) throw std::runtime_error("no card 7");
  }

 private:
  const int rank_;
};

TEST_F(UserBackendTest, ARankThatCannotJoinEndsTheJoiningOfRanksThatAreConnected) {
  register_backend(
      "OfRank0", [](const BackendPlace& place) { return std::make_unique<ByStoreOfRank0>(place); });
  const HashStore store;
  const auto fault = [&](int rank) {
    return ErrorOf([&] { ProcessGroup(library::Thread(store, rank, 2, "OfRank0")); });
  };
  std::jthread one([&] { EXPECT_THAT(fault(1).what(), HasSubstr("no card 7")); });
  const DistError error = fault(0);
  EXPECT_EQ(error.kind(), ErrorKind::kUnreachable);
  EXPECT_THAT(error.what(), HasSubstr("group 'default', rank 0: rank 1 could not join: "));
  EXPECT_THAT(error.what(), HasSubstr("no card 7"));
}

TEST_F(UserBackendTest, AFactoryThatWaitsLearnsThatBackendsDiffer) {
  const HashStore store;
  std::jthread one;
  register_backend("Waits", [&](const BackendPlace& place) -> std::unique_ptr<Backend> {
    one = std::jthread([&] {
      EXPECT_EQ(ErrorOf([&] { ProcessGroup(library::Thread(store, 1, 2, "shm")); }).kind(),
                ErrorKind::kMismatch);
    });
    Store keys = place.store;
    keys.get("card 1");
    return nullptr;
  });
  const DistError error = ErrorOf([&] { ProcessGroup(library::Thread(store, 0, 2, "Waits")); });
  EXPECT_EQ(error.kind(), ErrorKind::kMismatch);
  EXPECT_THAT(error.what(), HasSubstr("backends differ: rank 0 gives waits, rank 1 gives shm"));
}

TEST_F(UserBackendTest, AFactoryThatThrowsNoStandardExceptionFailsTheProgram) {
  register_backend("throws42", [](const BackendPlace&) -> std::unique_ptr<Backend> { throw 42; });
  const DistError error =
      ErrorOf([] { ProcessGroup(library::Thread(HashStore(), 0, 2, "throws42")); });
  EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
  EXPECT_STREQ(error.what(),
               "the factory of backend throws42 threw an exception of unknown type; throw a "
               "std::exception, whose text the error then has");
}

class ThrowsNoStandardException : public Backend {
 public:
  void exchange(std::span<const std::span<const std::byte>>,
                std::span<const std::span<std::byte>>) override {
    throw 42;
  }
  void abort() noexcept override {}
};

TEST_F(UserBackendTest, AnExchangeThatThrowsNoStandardExceptionIsToldWhatToThrow) {
  register_backend("exchange42", [](const BackendPlace&) {
    return std::make_unique<ThrowsNoStandardException>();
  });
  const DistError error =
      ErrorOf([] { ProcessGroup(library::Thread(HashStore(), 0, 2, "exchange42")); });
  EXPECT_THAT(error.what(), HasSubstr("the backend threw an exception of unknown type; throw a "
                                      "std::exception, whose text the error then has"));
}

TEST_F(UserBackendTest, ItHasNoMessages) {
  OnRanks(2, "ByStore", [](const ProcessGroup& group) {
    std::vector<float> data(1);
    const bool first = group.rank() == 0;
    const DistError error =
        ErrorOf([&] { first ? send(data, 1, 0, group) : recv(data, 0, 0, group); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("this backend has no messages between two ranks"));
    barrier(group);
  });
}

TEST_F(UserBackendTest, ItsSumsHaveTheBitsOfEveryBackend) {
  std::vector<std::vector<float>> sums(2);
  const auto sum_over = [&](const std::string& backend, std::vector<float>& sum) {
    OnRanks(4, backend, [&](const ProcessGroup& group) {
      std::vector<float> data;
      for (int i = 0; i < 100000; ++i)
        data.push_back((group.rank() % 2 == 0 ? 1e6f : -3e-3f) * float(i % 23 + group.rank()));
      all_reduce(data, ReduceOp::kAvg, group);
      if (group.rank() == 3) sum = data;
    });
  };
  sum_over("shm", sums[0]);
  sum_over("ByStore", sums[1]);
  EXPECT_EQ(sums[0], sums[1]);
}

TEST_F(UserBackendTest, ATimeoutAbortsIt) {
  std::latch done(1);
  OnRanks(
      2, "ByStore",
      [&](const ProcessGroup& group) {
        if (group.rank() == 1) return done.wait();
        std::vector<float> data(4);
        const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kSum, group); });
        done.count_down();
        EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
        EXPECT_THAT(error.what(), HasSubstr("all_reduce 1 did not end within 500ms"));
      },
      std::chrono::milliseconds(500));
}

// Adds in a way of its own; ends barriers as it is told.
class Scripted : public Backend {
 public:
  void exchange(std::span<const std::span<const std::byte>>,
                std::span<const std::span<std::byte>>) override {
    if (++exchanges_ == 1) return;  // joining
    if (exchanges_ == 2) throw DistError(ErrorKind::kPeerGone, "rank 7 is gone", {7});
  }
  void abort() noexcept override {}
  bool all_reduce(void* data, size_t count, DataType type, ReduceOp op) override {
    if (type != DataType::kFloat32 || op != ReduceOp::kSum) throw std::runtime_error("no chip");
    for (size_t i = 0; i < count; ++i) static_cast<float*>(data)[i] += 41;
    return true;
  }

 private:
  int exchanges_ = 0;
};

// Rank 0 of two. The other one joins and is gone, which this backend does not notice.
ProcessGroup ScriptedRank(const std::string& name) {
  register_backend(name, [](const BackendPlace&) { return std::make_unique<Scripted>(); });
  const HashStore store;
  std::jthread other(
      [&] { library::OnThread([&] { ProcessGroup(library::Thread(store, 1, 2, name)); }); });
  return ProcessGroup(library::Thread(store, 0, 2, name));
}

TEST_F(UserBackendTest, ItMayReduceItself) {
  const ProcessGroup group = ScriptedRank("adds");
  std::vector<float> data = {1};
  all_reduce(data, ReduceOp::kSum, group);
  EXPECT_EQ(data[0], 42);
  const DistError error = ErrorOf([&] { all_reduce(data, ReduceOp::kMax, group); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnreachable);
  EXPECT_THAT(error.what(), HasSubstr("all_reduce 2: no chip"));
}

TEST_F(UserBackendTest, ItsErrorsAreThoseOfTheOperation) {
  const ProcessGroup group = ScriptedRank("fails");
  const DistError error = ErrorOf([&] { barrier(group); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerGone);
  EXPECT_THAT(error.what(), HasSubstr("barrier 1: rank 7 is gone"));
  EXPECT_THAT(error.missing_ranks(), ElementsAre(7));
}

TEST_F(UserBackendTest, NamesAreKnownInAnyCaseAndTakenOnce) {
  const auto none = [](const BackendPlace&) -> std::unique_ptr<Backend> { return nullptr; };
  EXPECT_TRUE(is_backend_available("BYSTORE"));
  EXPECT_TRUE(is_backend_available("shm"));
  EXPECT_EQ(is_backend_available("hierarchical"), is_gloo_available());
  EXPECT_FALSE(is_backend_available("nonesuch"));
  EXPECT_EQ(ErrorOf([&] { register_backend("byStore", none); }).kind(), ErrorKind::kWrongState);
  for (const char* name : {"gloo", "Auto", "nccl", "mpi", "Hierarchical", "UNDEFINED", ""})
    EXPECT_EQ(ErrorOf([&] { register_backend(name, none); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(ErrorOf([] { register_backend("empty", nullptr); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_FALSE(is_backend_available("empty"));
  register_backend("none", none);
  const DistError error = ErrorOf([] { ProcessGroup(library::Thread(HashStore(), 0, 2, "none")); });
  EXPECT_EQ(error.kind(), ErrorKind::kProgramFailed);
  EXPECT_THAT(error.what(),
              HasSubstr("the factory of backend none returned no backend; return one, or throw"));
}

}  // namespace
}  // namespace dp::distributed
