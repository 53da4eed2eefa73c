#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "client/connection.h"
#include "client/testing/in_process.h"
#include "dp/v1/checkpoints.grpc.pb.h"

namespace dp::trainer {

// The coordinator's record of one job's checkpoints. Calls are thread-safe. A test sets the public
// members before the calls and reads them afterwards.
class FakeCheckpoints final : public v1::Checkpoints::Service {
 public:
  // If not OK, the answer to every registration.
  absl::Status refusal;
  // If not OK, the answer to every registration of weights after the first.
  absl::Status refusal_of_next;
  // Called at the begin of every registration of a checkpoint; may block.
  std::function<void()> on_register = [] {};
  std::vector<v1::Checkpoint> on_record;  // newest first
  v1::Weights weights;

  // The connection of the rank under test.
  client::Connection& connection() { return *connection_; }

  grpc::Status Register(grpc::ServerContext*, const v1::RegisterCheckpointRequest* request,
                        v1::RegisterCheckpointResponse* response) override {
    on_register();
    MutexLock lock(mu_);
    if (!refusal.ok()) return client::ToGrpc(refusal);
    const v1::Checkpoint& made = request->checkpoint();
    if (!made.best().empty()) {
      for (v1::Checkpoint& one : on_record) one.clear_best();
    }
    if (!on_record.empty() && on_record.front().path() == made.path()) {
      on_record.front().set_best(made.best());
    } else {
      on_record.insert(on_record.begin(), made);
      on_record.front().set_generation(request->generation());
    }
    DropOldest(static_cast<size_t>(request->keep()));
    for (const v1::Checkpoint& one : on_record) *response->add_checkpoints() = one;
    return grpc::Status::OK;
  }
  grpc::Status RegisterWeights(grpc::ServerContext*, const v1::RegisterWeightsRequest* request,
                               v1::RegisterWeightsResponse*) override {
    MutexLock lock(mu_);
    if (!refusal.ok()) return client::ToGrpc(refusal);
    if (!weights.path().empty() && !refusal_of_next.ok()) return client::ToGrpc(refusal_of_next);
    weights = request->weights();
    return grpc::Status::OK;
  }

 private:
  // Leaves the latest `keep` and the best.
  void DropOldest(size_t keep) {
    for (size_t i = on_record.size(); i-- > keep;) {
      if (on_record[i].best().empty()) on_record.erase(on_record.begin() + static_cast<long>(i));
    }
  }

  Mutex mu_;
  // Last, so that the calls end first.
  client::InProcess server_{static_cast<v1::Checkpoints::Service&>(*this)};
  const std::unique_ptr<client::Connection> connection_ = server_.Connect();
};

}  // namespace dp::trainer
