#include <future>

#include "gtest/gtest.h"
#include "server/rpc/testing/services_fixture.h"

namespace dp::server {
namespace {

class BusyDriverTest : public ServicesFixture {
 protected:
  BusyDriverTest() { options_.queue_capacity = 1; }

  // Occupies the driver and fills its queue, until the promise is set.
  std::promise<void> Occupy() {
    std::promise<void> release, occupied;
    const auto wait = [&occupied, released = release.get_future().share()](const auto&...) {
      occupied.set_value();
      released.wait();
    };
    while (!driver_->Ask(wait).ok()) {
    }
    occupied.get_future().wait();
    while (driver_->Ask([](const absl::Status&, const View&) {}).ok()) {
    }
    return release;
  }
  // Retries until the driver has room for the call.
  template <typename Call>
  static auto Insist(Call call) {
    auto answered = call();
    while (answered.status.error_code() == grpc::StatusCode::UNAVAILABLE) answered = call();
    EXPECT_TRUE(answered.ok()) << answered.status.error_message();
    return answered;
  }
  v1::Worker Listed() {
    const auto list = [this] {
      return client_->Call(client_->workers(), &v1::Workers::Stub::List, v1::ListWorkersRequest());
    };
    return Insist(list)->workers(0);
  }
};

TEST_F(BusyDriverTest, AHeartbeatWithNewsIsAnsweredAndItsNewsAreKept) {
  v1::HeartbeatRequest beat;
  beat.set_worker_id(Insist([this] { return client_->Register("w", 1); })->worker_id());
  beat.set_incarnation(1);
  std::promise<void> release = Occupy();
  for (const char* name : {"GPU-a", "GPU-b"}) {
    beat.clear_gpu_list();
    beat.add_gpu_list()->set_name(name);
    const auto answered = client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat);
    EXPECT_TRUE(answered.ok()) << answered.status.error_message();
    EXPECT_TRUE(answered->has_lease());
  }
  release.set_value();
  const v1::Worker listed = Listed();
  ASSERT_EQ(listed.gpu_list_size(), 1);
  EXPECT_EQ(listed.gpu_list(0).name(), "GPU-b");
}

}  // namespace
}  // namespace dp::server
