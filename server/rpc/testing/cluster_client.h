#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "dp/v1/access.grpc.pb.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "dp/v1/jobs.grpc.pb.h"
#include "dp/v1/logs.grpc.pb.h"
#include "dp/v1/store.grpc.pb.h"
#include "dp/v1/workers.grpc.pb.h"
#include "dp/v1/worlds.grpc.pb.h"
#include "grpcpp/grpcpp.h"

// For tests: the services of one coordinator as a small language. Every call has a deadline, and
// returns its status and response. Thread-safe.

namespace dp::server {

template <typename Response>
struct Answered {
  grpc::Status status;
  Response response;

  bool ok() const { return status.ok(); }
  const Response* operator->() const { return &response; }
};

class ClusterClient {
 public:
  explicit ClusterClient(const std::string& address,
                         const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                             grpc::InsecureChannelCredentials())
      : ClusterClient(grpc::CreateChannel(address, credentials)) {}
  // `waits_for_ready`: calls wait for a connection until their deadline, whatever attempts fail.
  explicit ClusterClient(std::shared_ptr<grpc::Channel> channel, bool waits_for_ready = true)
      : waits_for_ready_(waits_for_ready),
        channel_(std::move(channel)),
        access_(v1::Access::NewStub(channel_)),
        checkpoints_(v1::Checkpoints::NewStub(channel_)),
        jobs_(v1::Jobs::NewStub(channel_)),
        workers_(v1::Workers::NewStub(channel_)),
        worlds_(v1::Worlds::NewStub(channel_)),
        store_(v1::Store::NewStub(channel_)),
        logs_(v1::Logs::NewStub(channel_)) {}

  v1::Access::Stub& access() { return *access_; }
  v1::Checkpoints::Stub& checkpoints() { return *checkpoints_; }
  v1::Jobs::Stub& jobs() { return *jobs_; }
  v1::Workers::Stub& workers() { return *workers_; }
  v1::Worlds::Stub& worlds() { return *worlds_; }
  v1::Store::Stub& store() { return *store_; }
  v1::Logs::Stub& logs() { return *logs_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  template <typename Stub, typename Request, typename Response>
  Answered<Response> Call(Stub& stub,
                          grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                    Response*),
                          const Request& request, absl::Duration deadline_in = absl::Seconds(30)) {
    grpc::ClientContext context;
    context.set_wait_for_ready(waits_for_ready_);
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline_in));
    Answered<Response> answered;
    answered.status = (stub.*rpc)(&context, request, &answered.response);
    return answered;
  }

  static v1::JobSpec AJob(const std::string& name, int ranks = 1) {
    v1::JobSpec spec;
    spec.set_name(name);
    spec.set_ranks(ranks);
    spec.mutable_train()->mutable_data()->set_dir("/data");
    spec.mutable_train()->mutable_model()->set_preset("mlp");
    spec.mutable_train()->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
    spec.mutable_train()->set_global_batch_size(100'000);
    return spec;
  }

  Answered<v1::SubmitResponse> Submit(const v1::JobSpec& spec, const std::string& request_id) {
    v1::SubmitRequest request;
    request.set_request_id(request_id);
    *request.mutable_spec() = spec;
    return Call(*jobs_, &v1::Jobs::Stub::Submit, request);
  }
  Answered<v1::GetJobResponse> GetJob(uint64_t job) {
    v1::GetJobRequest request;
    request.set_job(job);
    return Call(*jobs_, &v1::Jobs::Stub::Get, request);
  }
  Answered<v1::RegisterResponse> Register(const std::string& name, int slots,
                                          uint64_t incarnation = 1) {
    v1::RegisterRequest request;
    request.set_name(name);
    request.set_host("host-" + name);
    request.set_address("127.0.0.1");
    request.set_incarnation(incarnation);
    request.set_slots(slots);
    return Call(*workers_, &v1::Workers::Stub::Register, request);
  }
  Answered<v1::ReportRankResponse> Report(uint64_t worker, uint64_t job, int rank,
                                          v1::RankState state, int exit_code = 0) {
    v1::ReportRankRequest request;
    request.set_worker_id(worker);
    request.set_incarnation(1);
    request.set_job(job);
    request.set_generation(1);
    request.set_rank(rank);
    request.set_state(state);
    request.set_pid(100 + rank);
    request.mutable_exit()->set_code(exit_code);
    return Call(*workers_, &v1::Workers::Stub::ReportRank, request);
  }
  Answered<v1::JoinResponse> Join(uint64_t job, int rank) {
    v1::JoinRequest request;
    request.set_job(job);
    request.set_generation(1);
    request.set_rank(rank);
    return Call(*worlds_, &v1::Worlds::Stub::Join, request);
  }
  Answered<v1::ExecuteResponse> Set(uint64_t job, const std::string& key, const std::string& value,
                                    uint64_t sequence) {
    v1::ExecuteRequest request;
    request.set_job(job);
    request.set_generation(1);
    request.set_client(1);
    request.set_sequence(sequence);
    v1::SetOperation* set = request.add_operations()->mutable_set();
    set->set_key(key);
    set->set_value(value);
    return Call(*store_, &v1::Store::Stub::Execute, request);
  }
  Answered<v1::AwaitResponse> Await(uint64_t job, const std::string& key, absl::Duration timeout) {
    v1::AwaitRequest request;
    request.set_job(job);
    request.set_generation(1);
    request.add_reads()->mutable_get()->set_key(key);
    request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
    return Call(*store_, &v1::Store::Stub::Await, request);
  }
  // Each rank is a client of its own.
  Answered<v1::ExecuteResponse> Arrive(uint64_t job, const std::string& barrier, int rank) {
    v1::ExecuteRequest request;
    request.set_job(job);
    request.set_generation(1);
    request.set_client(100 + rank);
    request.set_sequence(1);
    v1::AddOperation* add = request.add_operations()->mutable_add();
    add->set_key(barrier);
    add->set_amount(1);
    return Call(*store_, &v1::Store::Stub::Execute, request);
  }
  // Waits as a relay does for a caller of which it knows only this end of the connection.
  Answered<v1::AwaitResponse> AwaitBarrierFrom(uint64_t job, const std::string& barrier, int count,
                                               const std::string& peer, absl::Duration timeout) {
    v1::AwaitRequest request;
    request.set_job(job);
    request.set_generation(1);
    v1::ReachedOperation* reached = request.add_reads()->mutable_reached();
    reached->set_key(barrier);
    reached->set_count(count);
    request.set_who("a rank");
    request.set_peer(peer);
    request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
    return Call(*store_, &v1::Store::Stub::Await, request);
  }
  // Reports, as a daemon, that the rank has this end of a connection to its store.
  Answered<v1::HeartbeatResponse> TellClient(uint64_t worker, uint64_t job, int rank,
                                             const std::string& end) {
    v1::HeartbeatRequest request;
    request.set_worker_id(worker);
    request.set_incarnation(1);
    v1::StoreClient* client = request.mutable_store_clients()->add_clients();
    client->set_job(job);
    client->set_generation(1);
    client->set_rank(rank);
    client->set_end(end);
    return Call(*workers_, &v1::Workers::Stub::Heartbeat, request);
  }
  // Waits as a rank that has polled for a minute already.
  Answered<v1::AwaitResponse> AwaitBarrier(uint64_t job, const std::string& barrier, int count,
                                           int rank, absl::Duration timeout) {
    v1::AwaitRequest request;
    request.set_job(job);
    request.set_generation(1);
    v1::ReachedOperation* reached = request.add_reads()->mutable_reached();
    reached->set_key(barrier);
    reached->set_count(count);
    request.set_who(absl::StrCat("rank ", rank));
    request.set_rank(rank);
    request.mutable_waited()->set_seconds(60);
    request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
    return Call(*store_, &v1::Store::Stub::Await, request);
  }
  Answered<v1::ListWaitersResponse> ListWaiters(uint64_t job) {
    v1::ListWaitersRequest request;
    request.set_job(job);
    return Call(*store_, &v1::Store::Stub::ListWaiters, request);
  }
  Answered<v1::AppendLogsResponse> AppendLog(uint64_t worker, uint64_t job, uint64_t offset,
                                             const std::string& data, int rank = 0) {
    return Call(*logs_, &v1::Logs::Stub::Append, AppendRequest(worker, job, offset, data, rank));
  }
  static v1::AppendLogsRequest AppendRequest(uint64_t worker, uint64_t job, uint64_t offset,
                                             const std::string& data, int rank = 0) {
    v1::AppendLogsRequest request;
    request.set_worker_id(worker);
    request.set_incarnation(1);
    request.set_job(job);
    v1::LogChunk* chunk = request.add_chunks();
    chunk->set_generation(1);
    chunk->set_rank(rank);
    chunk->set_stream(v1::LOG_STREAM_STDOUT);
    chunk->set_offset(offset);
    chunk->set_data(data);
    return request;
  }
  // Reads on behind `after`, as a follower does.
  Answered<v1::ReadLogsResponse> ReadLogs(uint64_t job, absl::Duration timeout,
                                          const v1::ReadLogsResponse& after = {}) {
    v1::ReadLogsRequest request;
    request.set_job(job);
    *request.mutable_from() = after.next();
    request.mutable_timeout()->set_seconds(absl::ToInt64Seconds(timeout));
    return Call(*logs_, &v1::Logs::Stub::Read, request);
  }

 private:
  const bool waits_for_ready_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Access::Stub> access_;
  std::unique_ptr<v1::Checkpoints::Stub> checkpoints_;
  std::unique_ptr<v1::Jobs::Stub> jobs_;
  std::unique_ptr<v1::Workers::Stub> workers_;
  std::unique_ptr<v1::Worlds::Stub> worlds_;
  std::unique_ptr<v1::Store::Stub> store_;
  std::unique_ptr<v1::Logs::Stub> logs_;
};

}  // namespace dp::server
