#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "store/store.h"
#include "store/wire/tcp_connection.h"

namespace dp::wire {

struct TcpStoreOptions {
  TcpEndpoint server;
  // To connect, and for each reply to a request that does not wait.
  absl::Duration timeout = absl::Minutes(5);
  // To connect for the first time. By default `timeout`.
  std::optional<absl::Duration> open_timeout = std::nullopt;
  // Precedes every key. PyTorch's clients use this prefix, and see only keys that begin with it.
  std::string prefix = "/";
};

// The store behind a TCPStore server: PyTorch's own of any release, or ours. Thread-safe: each
// thread has a connection of its own during a call.
//
// The protocol has no batches: the operations of one Execute take effect one after the other, and
// those before a failing one stay. An operation without a verb in the protocol is Unimplemented. A
// server that finds an error just closes the connection; the status is then Unavailable, whatever
// the error was.
class TcpStore : public Store {
 public:
  // Errors: InvalidArgument no such host; Unavailable nobody listens, or the server speaks another
  // dialect.
  static absl::StatusOr<std::unique_ptr<TcpStore>> Open(const TcpStoreOptions& options);

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override DP_EXCLUDES(mu_);
  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override DP_EXCLUDES(mu_);

 private:
  // Runs operations as calls over one connection.
  class Calls;
  using Connection = std::unique_ptr<TcpConnection>;

  explicit TcpStore(const TcpStoreOptions& options) : options_(options) {}

  absl::StatusOr<Connection> Take() DP_EXCLUDES(mu_);
  void Return(Connection connection) DP_EXCLUDES(mu_);
  absl::StatusOr<StoreResult> RunOne(const StoreOperation& operation) DP_EXCLUDES(mu_);
  // The error of an add to which the server has `closed`: perhaps the value is no number.
  absl::Status WhyNoSum(const StoreAdd& add, const absl::Status& closed) DP_EXCLUDES(mu_);
  // The error of a wait that has timed out, with the names of what is missing now.
  absl::Status Missing(TcpConnection& connection, absl::Span<const StoreOperation> reads,
                       absl::Duration waited) const;

  const TcpStoreOptions options_;
  Mutex mu_;
  std::vector<Connection> idle_ DP_GUARDED_BY(mu_);
};

}  // namespace dp::wire
