#include "client/parameters.h"

#include <memory>
#include <string>

#include "base/checksum/crc32c.h"
#include "client/testing/in_process.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;

// Streams one version of six bytes in two chunks.
class FakeParameters final : public v1::Parameters::Service {
 public:
  std::string second = "def";  // in place of the second chunk
  int unavailable = 0;         // so many calls fail first
  int removals = 0;

 private:
  grpc::Status Pull(grpc::ServerContext*, const v1::PullParametersRequest*,
                    grpc::ServerWriter<v1::PullParametersResponse>* writer) override {
    if (unavailable-- > 0) return ToGrpc(absl::UnavailableError("away"));
    v1::PullParametersResponse message;
    message.mutable_version()->set_version(3);
    message.mutable_version()->set_bytes(6);
    message.set_data("abc");
    message.set_crc32c(ExtendCrc32c(0, "abc"));
    writer->Write(message);
    message.Clear();
    message.set_data(second);
    message.set_crc32c(ExtendCrc32c(0, "abcdef"));
    if (!second.empty()) writer->Write(message);
    return grpc::Status::OK;
  }
  // Pages of one version each.
  grpc::Status List(grpc::ServerContext*, const v1::ListParametersRequest* request,
                    v1::ListParametersResponse* response) override {
    const uint64_t number = request->has_after() ? request->after().version() - 1 : 3;
    response->add_versions()->set_version(number);
    response->set_more(number > 1);
    return grpc::Status::OK;
  }
  // The first answer is lost, with the coordinator's memory of it.
  grpc::Status Remove(grpc::ServerContext*, const v1::RemoveParametersRequest* request,
                      v1::RemoveParametersResponse*) override {
    if (++removals == 1) first_id_ = request->request_id();
    if (removals == 1) return ToGrpc(absl::UnavailableError("away"));
    return ToGrpc(request->request_id() == first_id_ ? absl::NotFoundError("gone")
                                                     : absl::InternalError("another request"));
  }

  std::string first_id_;
};

class ParametersTest : public ::testing::Test {
 protected:
  absl::StatusOr<PulledParameters> Pull() {
    return Parameters(*connection_, pause_).Pull({.name = "gpt2"});
  }

  FakeParameters fake_;
  InProcess server_{fake_};
  std::unique_ptr<Connection> connection_ = server_.Connect();
  Pause pause_;
};

TEST_F(ParametersTest, ChunksAreJoined) {
  const auto pulled = Pull();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->data, "abcdef");
}

TEST_F(ParametersTest, ACoordinatorThatIsAwayIsAskedAgain) {
  fake_.unavailable = 2;
  const auto pulled = Pull();
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  EXPECT_EQ(pulled->data, "abcdef");
}

TEST_F(ParametersTest, ADescriptionThatFitsIntoNoMessageNamesTheBound) {
  std::vector<TensorView> tensors;
  for (int i = 0; i < 100'000; ++i) {
    tensors.push_back({std::string(500, 'n') + std::to_string(i), "U8", {0}, ""});
  }
  const absl::Status pushed =
      Parameters(*connection_, pause_).Push({.name = "gpt2"}, tensors).status();
  EXPECT_EQ(pushed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(pushed.message(), HasSubstr("and a message has room for 19922944 of them"));
}

TEST_F(ParametersTest, ListsHaveAllPages) {
  Parameters parameters(*connection_, pause_);
  for (const auto& versions : {parameters.List(), parameters.Versions({.name = "gpt2"})}) {
    ASSERT_EQ(versions->size(), 3u);
    EXPECT_EQ(versions->front().version(), 3u);
    EXPECT_EQ(versions->back().version(), 1u);
  }
}

TEST_F(ParametersTest, ARemovalWhoseAnswerWasLostSucceeds) {
  Parameters parameters(*connection_, pause_);
  EXPECT_EQ(parameters.Remove({.name = "gpt2"}, 0).status(), absl::OkStatus());
  EXPECT_EQ(parameters.Remove({.name = "gpt2"}, 0).status().code(), absl::StatusCode::kInternal);
}

TEST_F(ParametersTest, ADamagedChunkIsNotTaken) {
  fake_.second = "deg";
  EXPECT_EQ(Pull().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Pull().status().message(), HasSubstr("do not match their checksum"));
}

TEST_F(ParametersTest, AStreamThatEndsEarlyIsNotTaken) {
  fake_.second = "";
  EXPECT_THAT(Pull().status().message(), HasSubstr("version 3 has 6 bytes, but 3 came"));
}

}  // namespace
}  // namespace dp::client
