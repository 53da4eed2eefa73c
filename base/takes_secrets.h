#pragma once

namespace dp {

// The label of a worker that gives ranks their secrets. The coordinator sets it for daemons that
// say so over TLS, and for no others. A job with secrets implicitly requires it. Nobody is shown
// it.
inline constexpr char kTakesSecrets[] = "takes-secrets";

}  // namespace dp
