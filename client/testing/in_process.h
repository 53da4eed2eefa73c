#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/limits.h"
#include "client/connection.h"

// Doubles of the coordinator are services that gRPC generates, such as v1::Jobs::Service. An RPC
// that a double does not override answers UNIMPLEMENTED. InProcess serves them without a port.

namespace dp::client {

// The codes of both libraries are the same numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

template <typename Response>
grpc::Status ToGrpc(absl::StatusOr<Response> answer, Response* response) {
  if (!answer.ok()) return ToGrpc(answer.status());
  *response = *std::move(answer);
  return grpc::Status::OK;
}

inline constexpr char kDeadlineKey[] = "deadline-ns";

// The deadline that the caller gave a call.
inline absl::Duration DeadlineOf(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kDeadlineKey);
  int64_t ns = 0;
  const bool read =
      found != metadata.end() &&
      absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &ns);
  return read ? absl::Nanoseconds(ns) : absl::InfiniteDuration();
}

// Serves services on gRPC's threads until it is destroyed. The services must outlive it, and a
// service's call that blocks must end before.
class InProcess {
 public:
  template <typename... Services>
  explicit InProcess(Services&... services) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMessageBytesMax);
    (builder.RegisterService(&services), ...);
    server_ = builder.BuildAndStart();
  }
  ~InProcess() { server_->Shutdown(gpr_now(GPR_CLOCK_REALTIME)); }
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;

  // Errors of the connection call the coordinator "fake:1". Its blocking calls do not end at
  // their deadlines, which belong to the clock of the test; the services see them by DeadlineOf.
  std::unique_ptr<Connection> Connect() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
    return std::make_unique<ToServer>(server_->InProcessChannel(arguments));
  }

 private:
  // Only a failing test waits this long.
  static constexpr absl::Duration kPatience = absl::Minutes(5);

  class ToServer final : public Connection {
   public:
    explicit ToServer(std::shared_ptr<grpc::Channel> channel)
        : Connection("fake:1", std::move(channel)) {}

   private:
    void Prepare(grpc::ClientContext& context, absl::Duration deadline_in) override {
      context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
      context.AddMetadata(kDeadlineKey, absl::StrCat(absl::ToInt64Nanoseconds(deadline_in)));
    }
  };

  std::unique_ptr<grpc::Server> server_;
};

}  // namespace dp::client
