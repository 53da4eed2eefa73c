// Threads that begin to wait at the same time.

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/grpc_store_link.h"
#include "client/testing/link_ends.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

// Opens streams only once two threads have asked for one; the streams hold parked waits until they
// are closed. Thread-safe.
class TwoAtOnce final : public AsyncStoreConnection {
 public:
  class Stream final : public ParkStream {
   public:
    std::shared_ptr<StoreLink::Call> Park(v1::AwaitRequest, Done<v1::AwaitResponse> done) override {
      MutexLock lock(mu_);
      parked_.push_back(std::move(done));
      return nullptr;
    }
    bool ended() const override { return closed(); }
    void Close() override {
      std::vector<Done<v1::AwaitResponse>> parked;
      {
        MutexLock lock(mu_);
        closed_ = true;
        parked = std::move(parked_);
      }
      for (auto& done : parked) std::move(done)(absl::CancelledError("closed"));
    }
    bool closed() const DP_EXCLUDES(mu_) {
      MutexLock lock(mu_);
      return closed_;
    }

   private:
    mutable Mutex mu_;
    std::vector<Done<v1::AwaitResponse>> parked_ DP_GUARDED_BY(mu_);
    bool closed_ DP_GUARDED_BY(mu_) = false;
  };

  std::shared_ptr<StoreLink::Call> StartExecute(v1::ExecuteRequest, absl::Duration,
                                                Done<v1::ExecuteResponse>) override {
    return nullptr;
  }
  std::shared_ptr<StoreLink::Call> StartAwait(v1::AwaitRequest, absl::Duration,
                                              Done<v1::AwaitResponse>) override {
    return nullptr;
  }
  std::shared_ptr<ParkStream> OpenPark() override DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    auto stream = std::make_shared<Stream>();
    streams_.push_back(stream);
    asked_.NotifyAll();
    while (streams_.size() < 2 && asked_.WaitFor(mu_, kLinkPatience)) {
    }
    return stream;
  }
  size_t open() DP_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::count_if(streams_.begin(), streams_.end(),
                         [](const auto& stream) { return !stream->closed(); });
  }

 private:
  Mutex mu_;
  CondVar asked_;
  std::vector<std::shared_ptr<Stream>> streams_ DP_GUARDED_BY(mu_);
};

TEST(GrpcStoreLinkThreadsTest, TwoThatBeginToWaitAtOnceShareOneStreamAndItsEnd) {
  TwoAtOnce connection;
  LinkEnds ends;
  std::optional<GrpcStoreLink> link(std::in_place, connection,
                                    GrpcStoreLink::Options{.job = JobId(1), .incarnation = 7});
  {
    std::jthread one([&] { link->Await({StoreGet{"one"}}, {}, ends.Of("one")); });
    std::jthread two([&] { link->Await({StoreGet{"two"}}, {}, ends.Of("two")); });
  }
  EXPECT_EQ(connection.open(), 1u);
  EXPECT_EQ(ends.size(), 0u);
  link.reset();
  EXPECT_EQ(connection.open(), 0u);
  EXPECT_EQ(ends.size(), 2u);
}

}  // namespace
}  // namespace dp::client
