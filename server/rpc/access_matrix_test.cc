// Every RPC, by every kind of caller, with every kind of credential. The expected answers
// follow from the table (server/access/access_table.h) alone, and every RPC of the protocol has its
// cells.

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "proto/convert/time.h"
#include "server/access/access_table.h"
#include "server/rpc/testing/tls_fixture.h"

namespace dp::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using security::Role;

constexpr absl::Duration kPatience = absl::Seconds(20);

const MethodDescriptor* MethodOf(Rpc rpc) {
  const std::vector<std::string> names = absl::StrSplit(NameOf(rpc), '.');
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      absl::StrCat("dp.v1.", names[0]));
  return service->FindMethodByName(names[1]);
}

// Whether a request is about a job or a worker, so that it may be about one of somebody else.
bool HasObject(const MethodDescriptor& method) {
  const auto* request = method.input_type();
  const auto* worker = request->FindFieldByName("worker");
  return method.full_name() == "dp.v1.Workers.Register" || method.name() == "Park" ||
         request->FindFieldByName("job") != nullptr ||
         request->FindFieldByName("worker_id") != nullptr ||
         (worker != nullptr && worker->type() == FieldDescriptor::TYPE_STRING);
}

// About job 1, its rank 0 of generation 1, and worker w1 that runs it.
void FillAboutOurs(Message* message, int depth);

void FillField(const FieldDescriptor* field, Message* message, int depth) {
  const auto* reflection = message->GetReflection();
  const std::string name(field->name());
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(message, field, name == "since" || name == "after" ? 0 : 1);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, name == "slots" || name == "ranks" ? 1 : 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnumValue(message, field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      if (name != "user" && name != "token") reflection->SetString(message, field, "w1");
      return;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth > 0 && name != "timeout") {
        FillAboutOurs(reflection->MutableMessage(message, field), depth - 1);
      }
      return;
    default:
      return;
  }
}

void FillAboutOurs(Message* message, int depth) {
  const auto* descriptor = message->GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    if (!descriptor->field(i)->is_repeated()) FillField(descriptor->field(i), message, depth);
  }
}

// One caller.
struct Cell {
  std::string who;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  Reach reach = Reach::kNone;  // of the caller's role
  bool ours = false;           // job 1 and worker w1 are the caller's own
};

class AccessMatrixTest : public TlsFixture, public testing::WithParamInterface<Rpc> {
 protected:
  // Job 1 is ann's, and runs on w1. Job 2 is eve's, and runs on w2.
  void SetUp() override {
    TlsFixture::SetUp();
    ASSERT_TRUE(As({Role::kWorker, "w1"})->Register("w1", 1, /*incarnation=*/1).ok());
    ASSERT_TRUE(As({Role::kUser, "ann"})->Submit(ClusterClient::AJob("first"), "a").ok());
    ASSERT_TRUE(As({Role::kWorker, "w2"})->Register("w2", 1, /*incarnation=*/2).ok());
    ASSERT_TRUE(As({Role::kUser, "eve"})->Submit(ClusterClient::AJob("second"), "b").ok());
  }
  security::RankClaims Claims(uint64_t job, uint64_t generation) {
    const auto found = As({Role::kAdmin, "root"})->GetJob(job);
    return {.rank = {JobId(job), Generation(generation), 0},
            .job_submitted_at = ::dp::FromProto(found->job().submitted_at())};
  }

  std::vector<Cell> Allowable() {
    const AccessRow row = RowOf(GetParam());
    return {{"admin", CredentialsOf({Role::kAdmin, "root"}), Reach::kAll},
            {"owner", CredentialsOf({Role::kUser, "ann"}), row.user, true},
            {"other user", CredentialsOf({Role::kUser, "bob"}), row.user},
            {"viewer", CredentialsOf({Role::kViewer, "vic"}), row.viewer},
            {"own worker", CredentialsOf({Role::kWorker, "w1"}), row.worker, true},
            {"other worker", CredentialsOf({Role::kWorker, "w2"}), row.worker},
            {"own rank", WithToken(Claims(1, 1)), row.rank, true},
            {"another job's rank", WithToken(Claims(2, 1)), row.rank},
            {"another generation's rank", WithToken(Claims(1, 9)), row.rank},
            {"stranger", Nobody(), row.stranger}};
  }
  std::vector<Cell> NeverAllowed() {
    std::vector<Cell> cells = {
        {"forged token", WithToken(Claims(1, 1).rank.job.ToString())},
        {"foreign token", WithToken(other_authority_.tokens().Token(Claims(1, 1)))}};
    for (const Role role : {Role::kAdmin, Role::kUser, Role::kWorker}) {
      const std::string name(security::NameOf(role));
      cells.push_back({"expired " + name, Expired({role, "x"})});
      cells.push_back({"unknown authority, " + name, OfAnotherAuthority({role, "x"})});
      cells.push_back({"revoked " + name, Revoked({role, "r-" + name})});
    }
    cells.push_back({"coordinator", CredentialsOf({Role::kCoordinator, "dp"})});
    return cells;
  }

  grpc::Status Call(const Cell& cell) {
    const MethodDescriptor* method = MethodOf(GetParam());
    auto* factory = google::protobuf::MessageFactory::generated_factory();
    std::unique_ptr<Message> request(factory->GetPrototype(method->input_type())->New());
    FillAboutOurs(request.get(), /*depth=*/2);
    if (auto* enroll = dynamic_cast<v1::EnrollRequest*>(request.get())) {
      enroll->set_name("w9");  // connected workers' names are given to nobody else
      enroll->set_token(authority_.JoinToken({Role::kWorker, ""}, 0, absl::Now(), kPatience));
    }
    if (auto* park = dynamic_cast<v1::ParkRequest*>(request.get())) {
      FillAboutOurs(park->add_waits(), /*depth=*/2);
      park->mutable_waits(0)->mutable_await()->add_reads()->mutable_get()->set_key("w1");
      park->mutable_waits(0)->mutable_await()->mutable_timeout();
    }
    const std::unique_ptr<Message> response(factory->GetPrototype(method->output_type())->New());
    const grpc::Status status = CallBytes(cell, *method, *request, response.get());
    // A stream answers each of its waits by itself.
    const auto* parked = dynamic_cast<const v1::ParkResponse*>(response.get());
    if (parked == nullptr || parked->answers().empty()) return status;
    const v1::ParkedAnswer& answer = parked->answers(0);
    return {static_cast<grpc::StatusCode>(answer.code()), answer.message()};
  }

  static bool Refused(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
           status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
           // To a user, the job of somebody else is one that is not there.
           absl::StartsWith(status.error_message(), "job 1 is not known") ||
           // The handshake failed.
           status.error_code() == grpc::StatusCode::UNAVAILABLE;
  }
  // Whether the table lets the caller in.
  static bool Expected(const Cell& cell) {
    const bool own = cell.ours || !HasObject(*MethodOf(GetParam()));
    return cell.reach == Reach::kAll || (cell.reach == Reach::kOwn && own);
  }

 private:
  grpc::Status CallBytes(const Cell& cell, const MethodDescriptor& method, const Message& request,
                         Message* response) {
    const auto client = As(cell.credentials);
    grpc::GenericStub stub(client->channel());
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    grpc::Slice slice(request.SerializeAsString());
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, absl::StrCat("/", method.service()->full_name(), "/", method.name()),
                   grpc::StubOptions(), &sent, &received,
                   [&done](grpc::Status status) { done.set_value(std::move(status)); });
    grpc::Status status = done.get_future().get();
    grpc::Slice whole;
    if (received.Valid() && received.DumpToSingleSlice(&whole).ok()) {
      EXPECT_TRUE(response->ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
    }
    return status;
  }
};

TEST_P(AccessMatrixTest, EachCallerIsLetInAsTheTableSays) {
  std::vector<Cell> cells = Allowable();
  // Callers who are let in may change what the others' calls are about.
  absl::c_stable_partition(cells, [](const Cell& cell) { return !Expected(cell); });
  for (const Cell& cell : cells) {
    const grpc::Status status = Call(cell);
    const bool stale = cell.who == "another generation's rank" &&
                       status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    EXPECT_EQ(!Refused(status) && !stale, Expected(cell) && !stale)
        << cell.who << ": " << status.error_code() << " " << status.error_message();
  }
}

TEST_P(AccessMatrixTest, NoCredentialThatDoesNotCountLetsAnybodyIn) {
  for (const Cell& cell : NeverAllowed()) {
    const grpc::Status status = Call(cell);
    EXPECT_TRUE(Refused(status)) << cell.who << ": " << status.error_code() << " "
                                 << status.error_message();
  }
}

std::vector<Rpc> AllRpcs() {
  std::vector<Rpc> rpcs;
  for (size_t i = 0; i < kRpcNames.size(); ++i) rpcs.push_back(static_cast<Rpc>(i));
  return rpcs;
}

INSTANTIATE_TEST_SUITE_P(Rpcs, AccessMatrixTest, testing::ValuesIn(AllRpcs()),
                         [](const testing::TestParamInfo<Rpc>& rpc) {
                           const std::vector<std::string> names =
                               absl::StrSplit(NameOf(rpc.param), '.');
                           return names[0] + names[1];
                         });

}  // namespace
}  // namespace dp::server
