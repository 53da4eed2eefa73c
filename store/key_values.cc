#include "store/key_values.h"

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/overloaded.h"
#include "base/status.h"
#include "store/key_values_batch.h"
#include "store/key_values_reader.h"

namespace dp {
namespace {

absl::Status Changes() {
  return absl::InvalidArgumentError("a store operation that changes something cannot be awaited");
}

absl::Status CheckAnswer(size_t bytes, size_t bytes_max, absl::string_view remedy) {
  if (bytes <= bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the answer to a batch of store operations takes ", bytes,
                   " bytes or more, the limit is ", bytes_max, "; ", remedy));
}

}  // namespace

KeyValues::KeyValues(const KeyValueLimits& limits, Contents contents)
    : limits_(limits),
      entries_(std::move(contents.entries)),
      queues_(std::move(contents.queues)),
      revision_(contents.revision),
      deletion_(contents.deletion) {
  for (const auto& [key, entry] : entries_) bytes_ += key.size() + entry.value.size();
  for (const auto& [name, queue] : queues_) {
    queued_ += queue.size();
    for (const std::string& element : queue) bytes_ += name.size() + element.size();
  }
  // Does not compile with another member: a member that commands change belongs into Contents.
  [[maybe_unused]] const auto& [a, b, c, d, e, f, g] = *this;
}

absl::StatusOr<KeyValues::Applied> KeyValues::Apply(absl::Span<const StoreOperation> operations,
                                                    size_t answer_bytes_max,
                                                    absl::string_view remedy) {
  Batch batch(*this);
  const size_t keys_before = entries_.size() + queued_;
  const size_t bytes_before = bytes_;
  size_t answer_bytes = 0;
  Applied applied;
  applied.results.reserve(operations.size());
  absl::Status status;
  for (const StoreOperation& operation : operations) {
    absl::StatusOr<StoreResult> result = batch.Run(operation);
    status = result.status();
    if (!status.ok()) break;
    status = CheckAnswer(answer_bytes += BytesOf(*result), answer_bytes_max, remedy);
    if (!status.ok()) break;
    applied.results.push_back(*std::move(result));
  }
  if (status.ok()) status = CheckTotals(keys_before, bytes_before);
  if (!status.ok()) {
    batch.Undo();
    return status;
  }
  batch.Commit(&applied);
  return applied;
}

absl::StatusOr<std::vector<StoreResult>> KeyValues::Read(absl::Span<const StoreOperation> reads,
                                                         size_t answer_bytes_max) const {
  size_t answer_bytes = 0;
  std::vector<StoreResult> results;
  results.reserve(reads.size());
  for (const StoreOperation& read : reads) {
    if (!IsRead(read)) return Changes();
    results.push_back(Reader(*this).Answer(read));
    DP_RETURN_IF_ERROR(
        CheckAnswer(answer_bytes += BytesOf(results.back()), answer_bytes_max, kSendLess));
  }
  return results;
}

const std::string* KeyValues::Find(absl::string_view key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second.value;
}

bool KeyValues::Found(const StoreOperation& read) const { return Reader(*this).Found(read); }

std::vector<Unmet> KeyValues::Missing(absl::Span<const StoreOperation> reads) const {
  std::vector<Unmet> unmet;
  for (const StoreOperation& read : reads) Reader(*this).Explain(read, unmet);
  return unmet;
}

absl::Status KeyValues::CheckTotals(size_t keys_before, size_t bytes_before) const {
  // A batch that frees is never rejected, even if the limits were lowered.
  const size_t keys = entries_.size() + queued_;
  if (keys > limits_.keys && keys > keys_before) {
    return absl::ResourceExhaustedError(
        absl::StrCat("store would hold ", keys, " keys, the limit is ", limits_.keys));
  }
  if (bytes_ > limits_.total_bytes && bytes_ > bytes_before) {
    return absl::ResourceExhaustedError(
        absl::StrCat("store would hold ", bytes_, " bytes, the limit is ", limits_.total_bytes));
  }
  return absl::OkStatus();
}

}  // namespace dp
