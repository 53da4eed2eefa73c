#pragma once

#include "dp/v1/store.pb.h"
#include "google/protobuf/arena.h"
#include "grpcpp/support/message_allocator.h"

namespace dp::server {

// Holds the messages of one Store.Execute on an arena of their own, because each operation has
// several parts. Owned by gRPC, from the beginning of the call to its end.
class ExecuteMessages final : public grpc::MessageHolder<v1::ExecuteRequest, v1::ExecuteResponse> {
 public:
  ExecuteMessages() {
    set_request(google::protobuf::Arena::CreateMessage<v1::ExecuteRequest>(&arena_));
    set_response(google::protobuf::Arena::CreateMessage<v1::ExecuteResponse>(&arena_));
  }

  void Release() override { delete this; }

 private:
  // Holds a batch of about a hundred small operations and its answer.
  static constexpr size_t kFirstBlockBytes = size_t{32} << 10;

  alignas(8) char first_block_[kFirstBlockBytes];
  google::protobuf::Arena arena_{first_block_, sizeof(first_block_)};
};

// Stateless; outlives the server.
class ExecuteMessageAllocator final
    : public grpc::MessageAllocator<v1::ExecuteRequest, v1::ExecuteResponse> {
 public:
  ExecuteMessages* AllocateMessages() override { return new ExecuteMessages; }
};

}  // namespace dp::server
