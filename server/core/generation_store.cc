#include "server/core/generation_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/digest.h"

namespace dp::core {
namespace {

bool OnlyReads(absl::Span<const StoreOperation> operations) {
  return std::all_of(operations.begin(), operations.end(), IsRead);
}

absl::Status Older(const StoreBatch& batch, uint64_t last) {
  return absl::FailedPreconditionError(absl::StrCat("store client ", batch.client, ": sequence ",
                                                    batch.sequence, " is older than its last, ",
                                                    last));
}

absl::Status Gap(const StoreBatch& batch, uint64_t last) {
  return absl::DataLossError(absl::StrCat("store client ", batch.client, ": sequence ",
                                          batch.sequence, " does not follow its last, ", last));
}

size_t BytesOf(const StoreResult& result) {
  constexpr size_t kFraming = 16;
  size_t bytes = kFraming + result.value.size();
  for (const std::string& key : result.keys) bytes += kFraming + key.size();
  return bytes;
}

// Sums in 64 bits, so that none wraps.
bool GroupsFit(const StoreBatch& batch) {
  uint64_t operations = 0;
  for (const uint32_t size : batch.groups) {
    if (size == 0) return false;
    operations += size;
  }
  return batch.groups.empty() || operations == batch.operations.size();
}

}  // namespace

GenerationStore::GenerationStore(KeyValues values, Clients clients)
    : values_(std::move(values)), clients_(std::move(clients)) {
  // Does not compile with another member: it is an argument then, and a part of snapshots.
  [[maybe_unused]] const auto& [a, b] = *this;
}

absl::StatusOr<GenerationStore::Applied> GenerationStore::Apply(const StoreBatch& batch) {
  DP_RETURN_IF_ERROR(CheckShape(batch));
  const bool grouped = !batch.groups.empty();
  if (OnlyReads(batch.operations)) return grouped ? ApplyGroups(batch) : ApplyAsOne(batch);
  const auto it = clients_.find(batch.client);
  const uint64_t last = it == clients_.end() ? 0 : it->second.sequence;
  if (batch.sequence < last) return Older(batch, last);
  if (batch.sequence == last) return Applied{it->second.answer};
  if (grouped && batch.sequence != last + 1) return Gap(batch, last);
  if (last == 0 && clients_.size() >= kClientsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(clients_.size(), " clients have written to this store, which is the limit"));
  }
  // A batch that fails is not remembered: nothing was applied, and it may be tried again.
  Applied applied;
  if (grouped) {
    applied = ApplyGroups(batch);
  } else {
    DP_ASSIGN_OR_RETURN(applied, ApplyAsOne(batch));
  }
  clients_[batch.client] = {batch.sequence, applied.answer};
  applied.recorded = true;
  return applied;
}

absl::StatusOr<GenerationStore::Applied> GenerationStore::ApplyAsOne(const StoreBatch& batch) {
  if (OnlyReads(batch.operations)) {
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, values_.Read(batch.operations));
    return Applied{{std::move(results), {}}};
  }
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(batch.operations));
  return Applied{{std::move(applied.results), {}},
                 std::move(applied.changed),
                 std::move(applied.pushed),
                 std::move(applied.taken)};
}

GenerationStore::Applied GenerationStore::ApplyGroups(const StoreBatch& batch) {
  Applied all;
  absl::Span<const StoreOperation> rest(batch.operations);
  size_t bytes = 0;
  for (uint32_t group = 0; group < batch.groups.size() && bytes < kAnswerBytesMax; ++group) {
    const Operations operations = rest.subspan(0, batch.groups[group]);
    rest.remove_prefix(operations.size());
    const size_t before = all.answer.results.size();
    const auto applied = OnlyReads(operations)
                             ? ReadUntilFull(operations, &bytes, &all.answer.results)
                             : ApplyGroup(operations, &bytes, &all);
    if (applied.ok()) continue;
    all.answer.refused.push_back({group, applied});
    all.answer.results.resize(before + operations.size());
  }
  std::sort(all.changed.begin(), all.changed.end());
  all.changed.erase(std::unique(all.changed.begin(), all.changed.end()), all.changed.end());
  std::sort(all.pushed.begin(), all.pushed.end());
  std::sort(all.taken.begin(), all.taken.end());
  return all;
}

absl::Status GenerationStore::ApplyGroup(Operations operations, size_t* bytes, Applied* all) {
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied, values_.Apply(operations));
  for (const StoreResult& result : applied.results) *bytes += BytesOf(result);
  absl::c_move(applied.results, std::back_inserter(all->answer.results));
  absl::c_move(applied.changed, std::back_inserter(all->changed));
  absl::c_move(applied.pushed, std::back_inserter(all->pushed));
  absl::c_move(applied.taken, std::back_inserter(all->taken));
  return absl::OkStatus();
}

absl::Status GenerationStore::ReadUntilFull(Operations operations, size_t* bytes,
                                            std::vector<StoreResult>* results) const {
  for (size_t i = 0; i < operations.size() && *bytes < kAnswerBytesMax; ++i) {
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> read, values_.Read(operations.subspan(i, 1)));
    const size_t more = BytesOf(read[0]);
    if (more > kResultBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an answer of ", more, " bytes is above the limit, ", kResultBytesMax));
    }
    *bytes += more;
    results->push_back(std::move(read[0]));
  }
  return absl::OkStatus();
}

absl::Status GenerationStore::CheckShape(const StoreBatch& batch) {
  if (batch.operations.size() > kOperationsMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a batch of ", batch.operations.size(),
                                                     " operations is above the limit, ",
                                                     kOperationsMax));
  }
  if (!GroupsFit(batch)) {
    return absl::InvalidArgumentError(absl::StrCat("the batch's groups do not add up to its ",
                                                   batch.operations.size(),
                                                   " operations, or one is empty"));
  }
  if (OnlyReads(batch.operations) || (batch.client != 0 && batch.sequence != 0))
    return absl::OkStatus();
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
    digest.Add(client).Add(last.sequence).Add(last.answer.refused.size());
    for (const GroupResults::Refused& refused : last.answer.refused) {
      digest.Add(uint64_t{refused.group}).Add(static_cast<uint64_t>(refused.status.code()));
    }
    digest.Add(last.answer.results.size());
    for (const StoreResult& result : last.answer.results) {
      digest.Add(result.found).Add(result.value).Add(static_cast<uint64_t>(result.number));
      digest.Add(result.keys.size()).Add(result.version);
      for (const std::string& key : result.keys) digest.Add(key);
    }
  }
}

}  // namespace dp::core
