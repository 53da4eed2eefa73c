#include "server/driver/action_bytes.h"

#include <variant>

#include "store/operation_bytes.h"

namespace dp::server {

size_t BytesOf(const core::Action& action) {
  if (const auto* job = std::get_if<core::SubmitJob>(&action)) return job->spec.payload.size();
  const auto* batch = std::get_if<core::StoreBatch>(&action);
  if (batch == nullptr) return 0;
  size_t bytes = 0;
  for (const StoreOperation& operation : batch->operations) bytes += dp::BytesOf(operation);
  return bytes;
}

}  // namespace dp::server
