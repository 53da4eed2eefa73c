#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "dp/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/coordinator_with_job.h"
#include "worker/library/dist_error.h"
#include "worker/library/grpc_place.h"
#include "worker/library/open_store.h"
#include "worker/library/testing/public_store_conformance.h"
#include "worker/library/testing/thrown.h"

// dp::GrpcStore over a coordinator in this process, in plain text. tests/e2e has it over TLS.

namespace dp::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::shared_ptr<library::OpenStore> OpenAt(const GrpcStoreOptions& options) {
  const auto in_plain_text = [](absl::string_view name) -> std::optional<std::string> {
    if (name == "DP_INSECURE") return "1";
    return std::nullopt;
  };
  return library::OrThrow(library::OpenGrpcStore(options, in_plain_text),
                          library::ErrorSource::kStore);
}

GrpcStoreOptions OptionsFor(const CoordinatorWithJob& coordinator) {
  return {.coordinator = coordinator.address(), .job = coordinator.job().value(), .generation = 1};
}

Store OpenOfCoordinator() {
  auto coordinator = std::make_shared<CoordinatorWithJob>();
  const auto opened = OpenAt(OptionsFor(*coordinator));
  opened->below = coordinator;
  return Store(opened);
}

INSTANTIATE_TEST_SUITE_P(, PublicStoreConformance,
                         ::testing::Values(PublicStore{"Grpc", OpenOfCoordinator},
                                           PublicStore{"PrefixOfGrpc",
                                                       []() -> Store {
                                                         return PrefixStore("job",
                                                                            OpenOfCoordinator());
                                                       }}),
                         [](const auto& info) { return info.param.name; });

class PublicGrpcStoreTest : public ::testing::Test {
 protected:
  static DistError ErrorOfOpening(const GrpcStoreOptions& options) {
    return library::ErrorOf([&] { OpenAt(options); });
  }

  CoordinatorWithJob coordinator_;
  GrpcStoreOptions options_ = OptionsFor(coordinator_);
};

TEST_F(PublicGrpcStoreTest, AJobThatIsNotThereIsTheCallersFault) {
  options_.job = 99;
  const DistError error = ErrorOfOpening(options_);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(absl::StrCat("GrpcStore of job 99, generation 1, at ",
                                                         coordinator_.address(), ": ")),
                                  HasSubstr("'dpctl ps' lists the jobs")));
}

TEST_F(PublicGrpcStoreTest, AnotherGenerationIsAWrongState) {
  options_.generation = 2;
  EXPECT_EQ(ErrorOfOpening(options_).kind(), ErrorKind::kWrongState);
}

TEST_F(PublicGrpcStoreTest, AnAddressWithoutACoordinatorIsUnreachable) {
  options_.coordinator = "127.0.0.1:1";
  options_.timeout = std::chrono::milliseconds(50);
  const DistError error = ErrorOfOpening(options_);
  EXPECT_EQ(error.kind(), ErrorKind::kUnreachable);
  EXPECT_THAT(error.what(), HasSubstr("check the address, and that dp-coordinator runs there"));
}

TEST_F(PublicGrpcStoreTest, ItKnowsTheAddressAtWhichPeersReachThisProcess) {
  EXPECT_EQ(OpenAt(options_)->own_address, "127.0.0.1");
}

// How a fork ends in which `check` runs; 0: it returned true. A fork that hangs is killed.
int InFork(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(PublicGrpcStoreTest, AForkGetsAnErrorThatSaysWhereToOpen) {
  const Store store(OpenAt(options_));
  const auto refused = [](const std::function<void()>& call) {
    const DistError error = library::ErrorOf(call);
    return error.kind() == ErrorKind::kWrongState &&
           std::string(error.what()).find("open the first GrpcStore after the fork") !=
               std::string::npos;
  };
  EXPECT_EQ(InFork([&] { return refused([&] { store.set("k", "v"); }); }), 0);
  EXPECT_EQ(InFork([&] { return refused([&] { store.get("k"); }); }), 0);
  EXPECT_EQ(InFork([&] { return refused([&] { OpenAt(options_); }); }), 0);
}

TEST_F(PublicGrpcStoreTest, AForkThatDropsTheStoreLeavesItToItsParent) {
  std::shared_ptr<library::OpenStore> opened = OpenAt(options_);
  std::string found;
  {
    const std::jthread waiter([&found, &store = *opened->store] {
      found = store.Get("k", absl::Minutes(1)).value_or("(none)");
    });
    while (coordinator_.parked() == 0) std::this_thread::yield();
    EXPECT_EQ(InFork([&] {
                opened.reset();
                return true;
              }),
              0);
    Store(opened).set("k", "v");
  }
  EXPECT_EQ(found, "v");
}

}  // namespace
}  // namespace dp::distributed
