#include "server/core/generation_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

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

// Adds in 64 bits, so that no sum wraps.
bool GroupsFit(const StoreBatch& batch) {
  uint64_t operations = 0;
  for (const uint32_t size : batch.groups) {
    if (size == 0) return false;
    operations += size;
  }
  return batch.groups.empty() || operations == batch.operations.size();
}

// The bytes that count towards kept_bytes_; 0 for a small answer.
size_t KeptBytesOf(const GenerationStore::LastAnswer& last) {
  size_t bytes = 0;
  for (const StoreResult& result : last.answer.results) bytes += BytesOf(result);
  return bytes > GenerationStore::kSmallAnswerBytesMax ? bytes : 0;
}

}  // namespace

GenerationStore::GenerationStore(KeyValues values, Clients clients, KeptAnswers kept)
    : values_(std::move(values)), clients_(std::move(clients)), kept_(kept) {
  for (const auto& [client, last] : clients_) kept_bytes_ += KeptBytesOf(last);
  // Does not compile if a member is added. A member that cannot be derived must become an argument
  // and a part of snapshots.
  [[maybe_unused]] const auto& [a, b, c, follows] = *this;
}

void GenerationStore::Limit(const KeyValueLimits& limits, KeptAnswers kept) {
  values_.Limit(limits);
  kept_ = kept;
}

absl::StatusOr<GenerationStore::Applied> GenerationStore::Apply(const StoreBatch& batch) {
  DP_RETURN_IF_ERROR(CheckShape(batch));
  const bool grouped = !batch.groups.empty();
  if (OnlyReads(batch.operations)) {
    if (!grouped) return ApplyAsOne(batch);
    return ApplyGroups(batch, /*only_reads=*/true).all;
  }
  const auto it = clients_.find(batch.client);
  const uint64_t last = it == clients_.end() ? 0 : it->second.sequence;
  if (batch.sequence < last) return Older(batch, last);
  if (batch.sequence == last) return Repeat(batch, it->second.answer);
  if (grouped && batch.sequence != last + 1) return Gap(batch, last);
  if (last == 0 && clients_.size() >= kClientsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(clients_.size(), " clients have written to this store, which is the limit"));
  }
  // A batch that fails is not remembered: nothing was applied, and the client may retry.
  Answer answer;
  if (grouped) {
    answer = ApplyGroups(batch, /*only_reads=*/false);
  } else {
    DP_ASSIGN_OR_RETURN(answer.all, ApplyAsOne(batch));
  }
  Keep(batch.client, {batch.sequence, answer.kept ? answer.all.answer : GroupResults()});
  answer.all.recorded = true;
  return std::move(answer.all);
}

void GenerationStore::Keep(uint64_t client, LastAnswer answer) {
  LastAnswer& last = clients_[client];
  kept_bytes_ -= KeptBytesOf(last);
  last = std::move(answer);
  kept_bytes_ += KeptBytesOf(last);
}

size_t GenerationStore::KeptMax(uint64_t client) const {
  if (kept_ != KeptAnswers::kBounded) return KeyValues::kAnyAnswer;
  const auto own = clients_.find(client);
  const size_t others = kept_bytes_ - (own == clients_.end() ? 0 : KeptBytesOf(own->second));
  return others < values_.limits().total_bytes ? KeyValues::kAnyAnswer : kSmallAnswerBytesMax;
}

std::string GenerationStore::WhyNoRoom() const {
  return absl::StrCat("answers of ", kept_bytes_,
                      " bytes are kept for the store's clients already, and above ",
                      values_.limits().total_bytes,
                      " only small ones are; send it in several, pop or compare smaller values, or "
                      "give the coordinator more with --store-bytes-max");
}

// A kept answer with results is complete. Without results, only the reads were answered and no
// write was applied.
GenerationStore::Applied GenerationStore::Repeat(const StoreBatch& batch,
                                                 const GroupResults& answer) {
  if (!answer.results.empty()) return Applied{answer};
  return ApplyGroups(batch, /*only_reads=*/true).all;
}

absl::StatusOr<GenerationStore::Applied> GenerationStore::ApplyAsOne(const StoreBatch& batch) {
  const size_t most =
      kept_ == KeptAnswers::kBounded ? kOneAnswerBytesMax : size_t{KeyValues::kAnyAnswer};
  if (OnlyReads(batch.operations)) {
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> results, values_.Read(batch.operations, most));
    return Applied{{std::move(results), {}}};
  }
  const size_t kept_max = KeptMax(batch.client);
  const std::string remedy = kept_max < most ? WhyNoRoom() : KeyValues::kSendLess;
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied,
                      values_.Apply(batch.operations, std::min(most, kept_max), remedy));
  return Applied{{std::move(applied.results), {}},
                 std::move(applied.changed),
                 std::move(applied.pushed),
                 std::move(applied.taken)};
}

GenerationStore::Answer GenerationStore::ApplyGroups(const StoreBatch& batch, bool only_reads) {
  Answer answer;
  if (!only_reads) answer.kept_max = KeptMax(batch.client);
  GroupResults& told = answer.all.answer;
  absl::Span<const StoreOperation> rest(batch.operations);
  for (uint32_t group = 0; group < batch.groups.size() && !answer.full; ++group) {
    const Operations operations = rest.subspan(0, batch.groups[group]);
    rest.remove_prefix(operations.size());
    const bool reads = OnlyReads(operations);
    if (!reads && (only_reads || !answer.kept)) break;
    const size_t before = told.results.size();
    const absl::Status applied =
        reads ? ReadUntilFull(operations, &answer) : ApplyGroup(operations, &answer);
    if (answer.bytes >= std::min(kAnswerBytesMax, answer.kept_max)) answer.full = true;
    if (applied.ok()) continue;
    told.refused.push_back({group, applied});
    told.results.resize(before + operations.size());
  }
  Applied& all = answer.all;
  std::sort(all.changed.begin(), all.changed.end());
  all.changed.erase(std::unique(all.changed.begin(), all.changed.end()), all.changed.end());
  std::sort(all.pushed.begin(), all.pushed.end());
  std::sort(all.taken.begin(), all.taken.end());
  return answer;
}

absl::Status GenerationStore::ApplyGroup(Operations operations, Answer* answer) {
  const size_t most =
      kept_ == KeptAnswers::kBounded ? kResultBytesMax : size_t{KeyValues::kAnyAnswer};
  answer->wrote = true;
  const std::string remedy = answer->kept_max < most ? WhyNoRoom() : KeyValues::kSendLess;
  DP_ASSIGN_OR_RETURN(KeyValues::Applied applied,
                      values_.Apply(operations, std::min(most, answer->kept_max), remedy));
  for (const StoreResult& result : applied.results) answer->bytes += BytesOf(result);
  Applied* all = &answer->all;
  absl::c_move(applied.results, std::back_inserter(all->answer.results));
  absl::c_move(applied.changed, std::back_inserter(all->changed));
  absl::c_move(applied.pushed, std::back_inserter(all->pushed));
  absl::c_move(applied.taken, std::back_inserter(all->taken));
  return absl::OkStatus();
}

absl::Status GenerationStore::ReadUntilFull(Operations operations, Answer* answer) const {
  for (size_t i = 0; i < operations.size() && answer->bytes < kAnswerBytesMax; ++i) {
    DP_ASSIGN_OR_RETURN(std::vector<StoreResult> read, values_.Read(operations.subspan(i, 1)));
    const size_t more = BytesOf(read[0]);
    if (more > kResultBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat("an answer of ", more, " bytes is above the limit, ", kResultBytesMax));
    }
    answer->read_bytes += more;
    if (kept_ == KeptAnswers::kBounded &&
        answer->read_bytes > std::min(kKeptReadBytesMax, answer->kept_max)) {
      answer->full = answer->wrote;
      answer->kept = answer->wrote;
    }
    if (answer->full) return absl::OkStatus();
    answer->bytes += more;
    answer->all.answer.results.push_back(std::move(read[0]));
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

}  // namespace dp::core
