#include "server/core/generation_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/digest.h"

namespace dp::core {
namespace {

bool OnlyReads(const StoreBatch& batch) {
  return std::all_of(batch.operations.begin(), batch.operations.end(), IsRead);
}

absl::Status Older(const StoreBatch& batch, uint64_t last) {
  return absl::FailedPreconditionError(absl::StrCat("store client ", batch.client, ": sequence ",
                                                    batch.sequence, " is older than its last, ",
                                                    last));
}

}  // namespace

absl::StatusOr<GenerationStore::Applied> GenerationStore::Apply(const StoreBatch& batch) {
  DP_RETURN_IF_ERROR(CheckShape(batch));
  if (OnlyReads(batch)) {
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, values_.Read(batch.operations));
    return Applied{std::move(results), {}, false};
  }
  if (const auto it = clients_.find(batch.client); it != clients_.end()) {
    if (batch.sequence < it->second.sequence) return Older(batch, it->second.sequence);
    if (batch.sequence == it->second.sequence) return Applied{it->second.results, {}, false};
  } else if (clients_.size() >= kClientsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(clients_.size(), " clients have written to this store, which is the limit"));
  }
  // A batch that fails is not remembered: nothing was applied, and it may be tried again.
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(batch.operations));
  clients_[batch.client] = {batch.sequence, applied.results};
  return Applied{std::move(applied.results), std::move(applied.changed), true};
}

absl::Status GenerationStore::CheckShape(const StoreBatch& batch) {
  if (batch.operations.size() > kOperationsMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a batch of ", batch.operations.size(),
                                                     " operations is above the limit, ",
                                                     kOperationsMax));
  }
  if (OnlyReads(batch) || (batch.client != 0 && batch.sequence != 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a batch that writes needs a client and a sequence, both from 1, so that it can be retried");
}

void GenerationStore::AddTo(Digest& digest) const {
  digest.Add(values_.revision()).Add(values_.deletion()).Add(values_.entries().size());
  for (const auto& [key, entry] : values_.entries()) {
    digest.Add(key).Add(entry.value).Add(entry.version);
  }
  digest.Add(values_.queues().size());
  for (const auto& [name, queue] : values_.queues()) {
    digest.Add(name).Add(queue.size());
    for (const std::string& element : queue) digest.Add(element);
  }
  digest.Add(clients_.size());
  for (const auto& [client, last] : clients_) {
    digest.Add(client).Add(last.sequence).Add(last.results.size());
    for (const StoreResult& result : last.results) {
      digest.Add(result.found).Add(result.value).Add(static_cast<uint64_t>(result.number));
      digest.Add(result.keys.size()).Add(result.version);
      for (const std::string& key : result.keys) digest.Add(key);
    }
  }
}

}  // namespace dp::core
