// A caller with a foreign or outdated identity must learn nothing that would let it act as another
// party. No status, answer, event or log line may hold another party's incarnation, request id or
// store client.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/rpc/testing/services_fixture.h"

namespace dp::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::Reflection;
using ::testing::HasSubstr;
using ::testing::Not;

// Values that are in an output only if the coordinator leaked them.
constexpr uint64_t kLostIncarnation = 8'114'000'000'000'000'017;
constexpr uint64_t kIncarnation = 8'114'000'000'000'000'029;
constexpr uint64_t kStoreClient = 8'114'000'000'000'000'043;
constexpr char kRequestId[] = "the-request-id-of-another-user";
constexpr uint64_t kStranger = 41;

const std::vector<std::string>& Secrets() {
  static const auto* secrets =
      new std::vector<std::string>{absl::StrCat(kLostIncarnation), absl::StrCat(kIncarnation),
                                   absl::StrCat(kStoreClient), kRequestId};
  return *secrets;
}

void ExpectNoSecretIn(const std::string& text, const std::string& where) {
  for (const std::string& secret : Secrets()) EXPECT_THAT(text, Not(HasSubstr(secret))) << where;
}

// Every call of the protocol that is answered once.
std::vector<const MethodDescriptor*> UnaryMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* name : {"jobs", "workers", "worlds", "store", "logs", "checkpoints"}) {
    const auto* file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(
        absl::StrCat("dp/v1/", name, ".proto"));
    EXPECT_NE(file, nullptr) << name;
    for (int service = 0; service < file->service_count(); ++service) {
      for (int i = 0; i < file->service(service)->method_count(); ++i) {
        const MethodDescriptor* method = file->service(service)->method(i);
        if (!method->client_streaming()) methods.push_back(method);
      }
    }
  }
  return methods;
}

// A stranger may know names and numbers that `dpctl` shows.
struct Guess {
  uint64_t incarnation = kStranger;
  uint64_t worker = 1;
  uint64_t generation = 1;
};

void Fill(const Guess& guess, int depth, Message* message);

void FillField(const Guess& guess, int depth, const FieldDescriptor* field, Message* message) {
  const Reflection* reflection = message->GetReflection();
  const std::string name(field->name());
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = name == "incarnation"                       ? guess.incarnation
                             : name == "worker_id"                       ? guess.worker
                             : name == "generation"                      ? guess.generation
                             : name == "since" || name == "lease_number" ? 0
                             : name == "client"                          ? kStranger
                                                                         : 1;
      return reflection->SetUInt64(message, field, value);
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, name == "slots" || name == "ranks" ? 1 : 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, field,
                                      field->enum_type()->value_count() > 2 ? 2 : 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, field, name == "request_id" ? "a-strangers" : "w");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth == 0 || name == "timeout") return;
      return Fill(guess, depth - 1, reflection->MutableMessage(message, field));
    default:
      return;
  }
}

void Fill(const Guess& guess, int depth, Message* message) {
  const Descriptor* descriptor = message->GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (!field->is_repeated()) FillField(guess, depth, field, message);
  }
}

class SecretsTest : public ServicesFixture {
 protected:
  SecretsTest() { options_.lease = absl::Minutes(10); }

  // A worker whose first daemon was lost and whose second daemon runs a job, beside a pending job
  // of another request.
  void MakeVictims() {
    ASSERT_TRUE(client_->Register("w", 1, kLostIncarnation).ok());
    Lose(WorkerId(1), Incarnation(kLostIncarnation));
    ASSERT_TRUE(client_->Register("w", 1, kIncarnation).ok());
    ASSERT_TRUE(client_->Submit(ClusterClient::AJob("job"), kRequestId).ok());
    ASSERT_TRUE(client_->Submit(ClusterClient::AJob("waits"), absl::StrCat(kRequestId, "-2")).ok());
    v1::ExecuteRequest request;
    request.set_job(1);
    request.set_generation(1);
    request.set_client(kStoreClient);
    request.set_sequence(1);
    request.add_operations()->mutable_set()->set_key("key");
    ASSERT_TRUE(client_->Call(client_->store(), &v1::Store::Stub::Execute, request).ok());
  }
  void Lose(WorkerId worker, Incarnation incarnation) {
    std::promise<absl::Status> done;
    ASSERT_TRUE(driver_
                    ->Submit(core::LoseWorker{worker, incarnation, "no heartbeat"},
                             [&](const core::Outcome& outcome, const View&) {
                               done.set_value(outcome.status);
                             })
                    .ok());
    ASSERT_TRUE(done.get_future().get().ok());
  }

  // Calls the method and checks all that comes back for secrets. Returns whether the call was
  // rejected.
  bool CallAsStranger(const MethodDescriptor* method, const Guess& guess) {
    const Message* prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method->input_type());
    std::unique_ptr<Message> request(prototype->New());
    Fill(guess, /*depth=*/2, request.get());
    std::unique_ptr<Message> response(google::protobuf::MessageFactory::generated_factory()
                                          ->GetPrototype(method->output_type())
                                          ->New());
    const grpc::Status status = CallGeneric(method, *request, response.get());
    const std::string name(method->full_name());
    ExpectNoSecretIn(status.error_message(), name);
    ExpectNoSecretIn(response->DebugString(), name);
    return !status.ok();
  }

  grpc::Status CallGeneric(const MethodDescriptor* method, const Message& request,
                           Message* response) {
    grpc::GenericStub stub(client_->channel());
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kLong));
    grpc::Slice slice(request.SerializeAsString());
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    std::promise<grpc::Status> done;
    const std::string path = absl::StrCat("/", method->service()->full_name(), "/", method->name());
    stub.UnaryCall(&context, path, grpc::StubOptions(), &sent, &received,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    grpc::Status status = done.get_future().get();
    if (status.ok()) {
      grpc::Slice whole;
      EXPECT_TRUE(received.DumpToSingleSlice(&whole).ok());
      EXPECT_TRUE(response->ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
    }
    return status;
  }
};

TEST_F(SecretsTest, NoCallOfAStrangerIsToldWhatWouldLetItActAsAnother) {
  testing::internal::CaptureStderr();
  MakeVictims();
  std::set<std::string> refused;
  for (const MethodDescriptor* method : UnaryMethods()) {
    for (const Guess& guess : {Guess{}, Guess{.worker = 77}, Guess{.generation = 9}}) {
      if (CallAsStranger(method, guess)) refused.emplace(method->name());
    }
  }
  for (const char* name : {"Heartbeat", "WatchAssignment", "ReportRank", "ReportSlots", "Append"}) {
    EXPECT_TRUE(refused.contains(name)) << name;
  }
  driver_->Stop();
  ExpectNoSecretIn(testing::internal::GetCapturedStderr(), "the log");
}

TEST_F(SecretsTest, ALostDaemonIsToldNothingOfItsSuccessor) {
  testing::internal::CaptureStderr();
  MakeVictims();
  v1::HeartbeatRequest beat;
  beat.set_worker_id(1);
  beat.set_incarnation(kLostIncarnation);
  const auto answer = client_->Call(client_->workers(), &v1::Workers::Stub::Heartbeat, beat);
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ExpectNoSecretIn(answer.status.error_message(), "a heartbeat");
  const auto registered = client_->Register("w", 1, kLostIncarnation);
  EXPECT_EQ(registered.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ExpectNoSecretIn(registered.status.error_message(), "a registration");
  ExpectNoSecretIn(client_->Register("w", 1, kStranger).status.error_message(), "a taken name");
  driver_->Stop();
  ExpectNoSecretIn(testing::internal::GetCapturedStderr(), "the log");
}

}  // namespace
}  // namespace dp::server
