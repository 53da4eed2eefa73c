#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum/crc32c.h"
#include "base/limits.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "server/rpc/testing/services_fixture.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

std::string DataOf(size_t bytes) {
  std::string data(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 509);
  return data;
}

struct PushSettings {
  uint64_t job = 0;
  std::string name = "gpt2";
  uint64_t generation = 0;
  std::string request = "a";
  bool damage = false;  // the last chunk
};

// The streams of the service as a small language, over a client's channel.
class ParametersClient {
 public:
  explicit ParametersClient(ClusterClient& client)
      : client_(client), stub_(v1::Parameters::NewStub(client.channel())) {}

  Answered<v1::PushParametersResponse> Push(const std::string& data,
                                            const PushSettings& settings = {}) {
    grpc::ClientContext context;
    SetDeadline(context);
    Answered<v1::PushParametersResponse> answered;
    const auto writer = stub_->Push(&context, &answered.response);
    v1::PushParametersRequest message;
    message.set_job(settings.job);
    message.set_name(settings.name);
    message.set_generation(settings.generation);
    message.set_request_id(settings.request);
    v1::ParameterTensor* const tensor = message.add_tensors();
    tensor->set_name("w");
    tensor->set_type("U8");
    tensor->add_shape(static_cast<int64_t>(data.size()));
    tensor->set_bytes(data.size());
    uint32_t crc = 0;
    size_t at = 0;
    do {
      message.set_data(data.substr(at, kParameterChunkBytes));
      crc = ExtendCrc32c(crc, message.data());
      const bool last = at + kParameterChunkBytes >= data.size();
      message.set_crc32c(settings.damage && last ? crc + 1 : crc);
      if (!writer->Write(message)) break;
      message.Clear();
      at += kParameterChunkBytes;
    } while (at < data.size());
    writer->WritesDone();
    answered.status = writer->Finish();
    return answered;
  }
  struct Pulled {
    grpc::Status status;
    v1::ParameterVersion version;
    std::string data;
    bool whole = true;  // every checksum matches
  };
  struct OpenPull {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::PullParametersResponse>> reader;
  };
  std::unique_ptr<OpenPull> BeginPull(const std::string& name, uint64_t since = 0,
                                      int timeout_s = 20, uint64_t version = 0) {
    v1::PullParametersRequest request;
    request.set_name(name);
    request.set_since(since);
    request.set_version(version);
    request.mutable_timeout()->set_seconds(timeout_s);
    auto pull = std::make_unique<OpenPull>();
    SetDeadline(pull->context);
    pull->reader = stub_->Pull(&pull->context, request);
    return pull;
  }
  Pulled Pull(const std::string& name, uint64_t since = 0, int timeout_s = 0,
              uint64_t version = 0) {
    return EndPull(*BeginPull(name, since, timeout_s, version));
  }
  static Pulled EndPull(OpenPull& pull) {
    Pulled pulled;
    v1::PullParametersResponse message;
    uint32_t crc = 0;
    while (pull.reader->Read(&message)) {
      if (message.has_version()) pulled.version = message.version();
      crc = ExtendCrc32c(crc, message.data());
      pulled.whole = pulled.whole && (message.data().empty() || crc == message.crc32c());
      pulled.data += message.data();
    }
    pulled.status = pull.reader->Finish();
    return pulled;
  }
  // A push of this message alone.
  grpc::Status PushHeader(const v1::PushParametersRequest& header) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::PushParametersResponse response;
    const auto writer = stub_->Push(&context, &response);
    (void)writer->Write(header);
    writer->WritesDone();
    return writer->Finish();
  }
  Answered<v1::ListParametersResponse> List(const v1::ListParametersRequest& request) {
    return client_.Call(*stub_, &v1::Parameters::Stub::List, request);
  }
  std::vector<std::string> List() {
    std::vector<std::string> names;
    const auto listed = List({});
    for (const auto& each : listed->versions()) {
      names.push_back(each.job() == 0 ? each.name() : "job " + std::to_string(each.job()));
    }
    return names;
  }
  grpc::Status Remove(const std::string& name, const std::string& id = "removal") {
    v1::RemoveParametersRequest request;
    request.set_name(name);
    request.set_request_id(id);
    return client_.Call(*stub_, &v1::Parameters::Stub::Remove, request).status;
  }

 private:
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  }

  ClusterClient& client_;
  std::unique_ptr<v1::Parameters::Stub> stub_;
};

// Returns once so many pulls wait.
void AwaitWaiting(const Parameters& parameters, int pulls) {
  const absl::Time deadline = absl::Now() + kLong;
  while (parameters.waits.taken() != pulls) ASSERT_LT(absl::Now(), deadline);
}

class ParametersServiceTest : public ServicesFixture {
 protected:
  void SetUp() override {
    ServicesFixture::SetUp();
    parameters_client_ = std::make_unique<ParametersClient>(*client_);
  }
  ParametersClient& parameters() { return *parameters_client_; }
  struct After {
    std::string name;
    uint64_t version = 0;
  };
  // A page of a list, of all sets or the versions of one.
  std::vector<std::string> Page(const After& after, const std::string& of = "") {
    v1::ListParametersRequest request;
    request.set_name(of);
    request.mutable_after()->set_name(after.name);
    request.mutable_after()->set_version(after.version);
    const auto listed = parameters().List(request);
    std::vector<std::string> page;
    for (const auto& each : listed->versions()) {
      page.push_back(each.name() + "@" + std::to_string(each.version()));
    }
    if (listed->more()) page.push_back("more");
    return page;
  }

  std::unique_ptr<ParametersClient> parameters_client_;
};

TEST_F(ParametersServiceTest, WhatWasPushedIsPulled) {
  for (const size_t bytes : {size_t{0}, size_t{1}, kParameterChunkBytes, kParameterChunkBytes + 1,
                             3 * kParameterChunkBytes + 77}) {
    const std::string data = DataOf(bytes);
    const PushSettings settings = {.name = "n" + std::to_string(bytes)};
    const auto pushed = parameters().Push(data, settings);
    ASSERT_TRUE(pushed.ok()) << pushed.status.error_message();
    EXPECT_EQ(pushed->version().version(), 1u);
    EXPECT_EQ(pushed->version().crc32c(), ExtendCrc32c(0, data));
    const auto pulled = parameters().Pull(settings.name);
    ASSERT_TRUE(pulled.status.ok()) << pulled.status.error_message();
    EXPECT_TRUE(pulled.whole && pulled.data == data) << bytes;
    EXPECT_EQ(pulled.version.tensors(0).name(), "w");
  }
}

TEST_F(ParametersServiceTest, ARepeatedPushGetsItsVersion) {
  EXPECT_EQ(parameters().Push("one")->version().version(), 1u);
  EXPECT_EQ(parameters().Push("one")->version().version(), 1u);
  EXPECT_EQ(parameters().Push("two", {.request = "b"})->version().version(), 2u);
}

TEST_F(ParametersServiceTest, ADamagedChunkIsRejectedAndLeavesNothing) {
  const auto pushed = parameters().Push(DataOf(2 * kParameterChunkBytes), {.damage = true});
  EXPECT_EQ(pushed.status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_THAT(pushed.status.error_message(), HasSubstr("chunk 1 was damaged on its way"));
  EXPECT_TRUE(parameters().List().empty());
}

TEST_F(ParametersServiceTest, APullWaitsForTheNextVersion) {
  ASSERT_TRUE(parameters().Push("one").ok());
  std::jthread pusher([this] {
    ParametersClient other(*client_);
    EXPECT_TRUE(other.Push("two", {.request = "b"}).ok());
  });
  const auto pulled = parameters().Pull("gpt2", /*since=*/1, /*timeout_s=*/20);
  EXPECT_EQ(pulled.data, "two") << pulled.status.error_message();
}

TEST_F(ParametersServiceTest, HundredsOfWaitingPullsLeaveRoomForAPush) {
  constexpr int kPulls = 600;
  static_assert(kPulls > Parameters::kStreamsMax);
  ASSERT_TRUE(parameters().Push("one").ok());
  std::vector<std::unique_ptr<ParametersClient::OpenPull>> pulls;
  for (int i = 0; i < kPulls; ++i) pulls.push_back(parameters().BeginPull("gpt2", /*since=*/1));
  AwaitWaiting(*parameters_, kPulls);
  const auto pushed = parameters().Push("two", {.request = "b"});
  ASSERT_TRUE(pushed.ok()) << pushed.status.error_message();
  for (const auto& pull : pulls) {
    const auto pulled = ParametersClient::EndPull(*pull);
    ASSERT_EQ(pulled.data, "two") << pulled.status.error_message();
  }
}

TEST_F(ParametersServiceTest, ATensorWithoutANameIsNamed) {
  v1::PushParametersRequest header;
  header.set_name("gpt2");
  header.set_request_id("a");
  header.add_tensors()->set_type("U8");
  const grpc::Status refused = parameters().PushHeader(header);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "tensors: '' is no name; give 1 to 512 bytes of UTF-8");
}

TEST_F(ParametersServiceTest, WhatIsNotThereIsNamed) {
  EXPECT_EQ(parameters().Pull("none").status.error_message(),
            "set none has no parameters; see 'dpctl weights ls'");
  ASSERT_TRUE(parameters().Push("one").ok());
  EXPECT_EQ(parameters().Pull("gpt2", 0, 0, /*version=*/9).status.error_message(),
            "set gpt2 has no parameters of version 9; see 'dpctl weights ls'");
  EXPECT_EQ(parameters().Pull("gpt2", /*since=*/1).status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(parameters().Push("x", {.name = "No Name"}).status.error_message(),
              HasSubstr("name: 'No Name' is no name of a set"));
  EXPECT_THAT(parameters().Push("x", {.job = 9, .name = ""}).status.error_message(),
              HasSubstr("job 9 is not known"));
}

TEST_F(ParametersServiceTest, RemovedSetsAreGone) {
  ASSERT_TRUE(parameters().Push("one").ok());
  EXPECT_TRUE(parameters().Remove("gpt2").ok());
  EXPECT_TRUE(parameters().Remove("gpt2").ok());  // a retry
  EXPECT_EQ(parameters().Remove("gpt2", "another").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(parameters().Remove("gpt2", "").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(parameters().List().empty());
}

TEST_F(ParametersServiceTest, LongListsComeInPages) {
  parameters_->versions_of_page = 2;
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(parameters().Push("one", {.name = name}).ok());
  ASSERT_TRUE(parameters().Push("two", {.name = "c", .request = "b"}).ok());
  ASSERT_TRUE(parameters().Push("three", {.name = "c", .request = "c"}).ok());
  EXPECT_THAT(Page({}), testing::ElementsAre("a@1", "b@1", "more"));
  EXPECT_THAT(Page({.name = "b"}), testing::ElementsAre("c@3"));
  EXPECT_THAT(Page({}, "c"), testing::ElementsAre("c@3", "c@2", "more"));
  EXPECT_THAT(Page({.version = 2}, "c"), testing::ElementsAre("c@1"));
}

class ParametersAccessTest : public TlsFixture {};

TEST_F(ParametersAccessTest, ANamedSetBelongsToWhoPushedItFirst) {
  const auto ann = As({Role::kUser, "ann"}), bob = As({Role::kUser, "bob"});
  const auto vic = As({Role::kViewer, "vic"});
  ParametersClient of_ann(*ann), of_bob(*bob), of_vic(*vic);
  EXPECT_EQ(of_ann.Push("one")->version().owner(), "ann");
  EXPECT_EQ(of_bob.Push("two", {.request = "b"}).status.error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(of_bob.Pull("gpt2").status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(of_bob.Remove("gpt2").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(of_bob.List().empty());
  EXPECT_EQ(of_vic.Pull("gpt2").data, "one");
  EXPECT_EQ(of_vic.Push("two", {.request = "b"}).status.error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(of_ann.List(), testing::ElementsAre("gpt2"));
}

TEST_F(ParametersAccessTest, OneCallersWaitsLeaveRoomForOthers) {
  const auto ann = As({Role::kUser, "ann"}), vic = As({Role::kViewer, "vic"});
  ParametersClient of_ann(*ann), of_vic(*vic);
  ASSERT_TRUE(of_ann.Push("one").ok());
  std::vector<std::unique_ptr<ParametersClient::OpenPull>> pulls;
  for (int i = 0; i < Parameters::kWaitsOfCallerMax; ++i) {
    pulls.push_back(of_ann.BeginPull("gpt2", /*since=*/1));
  }
  AwaitWaiting(*parameters_, Parameters::kWaitsOfCallerMax);
  const auto refused = of_ann.Pull("gpt2", /*since=*/1, /*timeout_s=*/20);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.status.error_message(),
            "user ann has 64 pulls of parameters that wait, which is the limit; try again later");
  pulls.push_back(of_vic.BeginPull("gpt2", /*since=*/1));
  AwaitWaiting(*parameters_, Parameters::kWaitsOfCallerMax + 1);
  ASSERT_TRUE(of_ann.Push("two", {.request = "b"}).ok());
  for (const auto& pull : pulls) EXPECT_EQ(ParametersClient::EndPull(*pull).data, "two");
}

TEST_F(ParametersAccessTest, AWaitGivesNothingToACallerWhoMayNoLongerPull) {
  const auto ann = As({Role::kUser, "ann"}), vic = As({Role::kViewer, "vic"});
  ParametersClient of_ann(*ann), of_vic(*vic);
  ASSERT_TRUE(of_ann.Push("one").ok());
  const auto pull = of_vic.BeginPull("gpt2", /*since=*/1);
  AwaitWaiting(*parameters_, 1);
  (void)Revoked({Role::kViewer, "vic"});
  ASSERT_TRUE(of_ann.Push("two", {.request = "b"}).ok());
  const auto pulled = ParametersClient::EndPull(*pull);
  EXPECT_EQ(pulled.status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
      << pulled.status.error_message();
  EXPECT_EQ(pulled.data, "");
}

TEST_F(ParametersAccessTest, ARankHasTheSetOfItsJobAndGeneration) {
  ASSERT_TRUE(As({Role::kWorker, "w1"})->Register("w1", 1).ok());
  const auto ann = As({Role::kUser, "ann"});
  const auto job = ann->Submit(ClusterClient::AJob("job"), "request");
  ASSERT_TRUE(job.ok()) << job.status.error_message();
  const auto claims = [&](uint64_t generation) {
    return security::RankClaims{.rank = {JobId(1), Generation(generation), 0},
                                .job_submitted_at = ::dp::FromProto(job->job().submitted_at())};
  };
  const auto rank = As(WithToken(claims(1))), stale = As(WithToken(claims(9)));
  ParametersClient of_rank(*rank), of_stale(*stale), of_ann(*ann);
  const PushSettings ours = {.job = 1, .name = "", .generation = 1};
  EXPECT_TRUE(of_rank.Push("one", ours).ok());
  EXPECT_EQ(of_rank.Push("one").status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  const auto refused = of_stale.Push("two", {.job = 1, .name = "", .generation = 9});
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.status.error_message(),
              HasSubstr("generation 9 has not begun, current is 1"));
  EXPECT_THAT(of_ann.List(), testing::ElementsAre("job 1"));
}

}  // namespace
}  // namespace dp::server
