#pragma once

#include "grpcpp/security/auth_metadata_processor.h"
#include "server/access/gate.h"

namespace dp::server {

// Ends calls of callers who have begun too many without their messages, when gRPC has read their
// headers. gRPC would keep each, and Debian's build would search all of them for each step. Calls
// that a client opens and resets, or never ends, would take gigabytes.
//
// The gate must outlive the server's credentials. Thread-safe.
class HeaderCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit HeaderCheck(Gate& gate) : gate_(gate) {}

  // On the thread that has read the headers, which therefore reads no more meanwhile.
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& headers, grpc::AuthContext* connection,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  Gate& gate_;
};

}  // namespace dp::server
