#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/dpctl/context.h"
#include "client/grpc_store.h"

namespace dp::ctl {

// The store of a job's current generation. Errors of its verbs: those of client::GrpcStore. Borrows
// the context; one thread.
class JobStore {
 public:
  // Errors: NotFound no such job; FailedPrecondition the job has had no generation yet; others as
  // Context::Call.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(Context& context, const std::string& job);

  Store& store() { return store_; }
  uint64_t job() const { return job_.value(); }

 private:
  JobStore(Context& context, JobId job, Generation generation);

  const JobId job_;
  client::GrpcStore store_;
};

// A key as tables and errors show it. Keys are bytes, so odd bytes are escaped.
std::string KeyText(absl::string_view key);

}  // namespace dp::ctl
