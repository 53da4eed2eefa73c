#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/access/admission.h"
#include "server/core/command.h"
#include "server/core/outcome.h"
#include "server/driver/driver.h"

// The three shapes of a unary call. Each returns at once; the driver's thread fills in the response
// and finishes the call. `answer` runs there, at most once, and must not block.

namespace dp::server {

// A call that reads.
grpc::ServerUnaryReactor* Ask(const Admission& admission, grpc::CallbackServerContext* context,
                              std::function<absl::Status(const View&)> answer);

// A call that changes: applies the command, and calls `answer` only if the command was accepted.
grpc::ServerUnaryReactor* Apply(
    const Admission& admission, grpc::CallbackServerContext* context, core::Action action,
    std::function<absl::Status(const core::Outcome&, const View&)> answer);

// A call that waits. `answer` runs again whenever a topic changes, until it returns a status. When
// `last` is true, it must return one.
grpc::ServerUnaryReactor* Wait(
    const Admission& admission, std::vector<core::Topic> topics, absl::Duration timeout,
    std::function<std::optional<absl::Status>(const View&, bool last)> answer,
    std::optional<BlockedCall> blocked = {});

// Rejects a call; a caller who may not make it learns only that.
grpc::ServerUnaryReactor* Refuse(const Admission& admission, grpc::CallbackServerContext* context,
                                 const absl::Status& status);

// On an error, finishes a call of several steps. With OK, does not touch `call`: it belongs to its
// next step, which may already have finished it.
void FinishOnError(grpc::ServerUnaryReactor* call, const absl::Status& status);

// The status of a wait that ended without an answer; not for kDeadline, which has an answer.
// `failure` is the view's.
absl::Status EndOfWait(Waiters::Wake wake, const absl::Status& failure = {});

}  // namespace dp::server
