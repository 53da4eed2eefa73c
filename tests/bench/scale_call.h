#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dp::bench {

// Begins an asynchronous call. `send(context, request, response, done)` passes the call to a stub.
// `done` receives status and response on a gRPC thread.
template <typename Response, typename Request, typename Send, typename Done>
void Call(Request request, absl::Duration deadline_in, Send send, Done done) {
  struct State {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto state = std::make_shared<State>();
  state->request = std::move(request);
  state->context.set_deadline(absl::ToChronoTime(absl::Now() + deadline_in));
  send(&state->context, &state->request, &state->response,
       [state, done = std::move(done)](const grpc::Status& status) {
         done(status, state->response);
       });
}

}  // namespace dp::bench
