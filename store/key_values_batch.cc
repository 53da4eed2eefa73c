#include "store/key_values_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace dp {

struct KeyValues::Batch::Meaning {
  absl::StatusOr<StoreResult> operator()(const StoreSet& set) const {
    DP_RETURN_IF_ERROR(batch.Put(set.key, set.value));
    return StoreResult{};
  }

  absl::StatusOr<StoreResult> operator()(const StoreAppend& append) const {
    const std::string* value = batch.store_.Find(append.key);
    DP_RETURN_IF_ERROR(batch.Put(
        append.key, value == nullptr ? append.value : absl::StrCat(*value, append.value)));
    return StoreResult{};
  }

  absl::StatusOr<StoreResult> operator()(const StoreAdd& add) const {
    const std::string* value = batch.store_.Find(add.key);
    int64_t number = 0;
    if (value != nullptr && !LeadingNumber(*value, &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("store add to key ", PrintableKey(add.key),
                       ": its value does not begin with a decimal number of 64 bits"));
    }
    // Wraps, as in every server of this protocol.
    const auto sum =
        static_cast<int64_t>(static_cast<uint64_t>(number) + static_cast<uint64_t>(add.amount));
    DP_RETURN_IF_ERROR(batch.Put(add.key, absl::StrCat(sum)));
    return StoreResult{.number = sum};
  }

  absl::StatusOr<StoreResult> operator()(const StoreCompareSet& compare_set) const {
    const std::string* value = batch.store_.Find(compare_set.key);
    const bool equal =
        value == nullptr ? compare_set.expected.empty() : *value == compare_set.expected;
    if (!equal) return StoreResult{.value = value == nullptr ? compare_set.expected : *value};
    DP_RETURN_IF_ERROR(batch.Put(compare_set.key, compare_set.desired));
    return StoreResult{.found = true, .value = compare_set.desired};
  }

  absl::StatusOr<StoreResult> operator()(const StoreDelete& erase) const {
    const auto entry = batch.store_.entries_.find(erase.key);
    if (entry == batch.store_.entries_.end()) return StoreResult{};
    batch.steps_.push_back({Step::What::kValue, &erase.key, entry->second, {}});
    batch.Restore(erase.key, std::nullopt);
    return StoreResult{.found = true};
  }

  absl::StatusOr<StoreResult> operator()(const StoreQueuePush& push) const {
    DP_RETURN_IF_ERROR(batch.CheckSizes(push.key, push.value.size()));
    batch.steps_.push_back({Step::What::kPush, &push.key, std::nullopt, {}});
    batch.Push(push.key, push.value, /*at_head=*/false);
    return StoreResult{.number = static_cast<int64_t>(batch.store_.queues_[push.key].size())};
  }

  absl::StatusOr<StoreResult> operator()(const StoreQueuePop& pop) const {
    const auto queue = batch.store_.queues_.find(pop.key);
    if (queue == batch.store_.queues_.end()) return StoreResult{};
    const auto length = static_cast<int64_t>(queue->second.size());
    std::string head = batch.Pop(pop.key, /*from_head=*/true);
    batch.steps_.push_back({Step::What::kPop, &pop.key, std::nullopt, head});
    return StoreResult{.found = true, .value = std::move(head), .number = length};
  }

  template <typename Read>
  absl::StatusOr<StoreResult> operator()(const Read& read) const {
    return Reader(batch.store_).Run(read);
  }

  Batch& batch;
};

absl::StatusOr<StoreResult> KeyValues::Batch::Run(const StoreOperation& operation) {
  return std::visit(Meaning{*this}, operation);
}

absl::Status KeyValues::Batch::CheckSizes(const std::string& key, size_t value_bytes) const {
  const KeyValueLimits& limits = store_.limits_;
  if (key.size() > limits.key_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("store key ", PrintableKey(key), " has ",
                                                     key.size(), " bytes, the limit is ",
                                                     limits.key_bytes));
  }
  if (value_bytes <= limits.value_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("store value of key ", PrintableKey(key),
                                                   " has ", value_bytes, " bytes, the limit is ",
                                                   limits.value_bytes));
}

absl::Status KeyValues::Batch::Put(const std::string& key, std::string value) {
  DP_RETURN_IF_ERROR(CheckSizes(key, value.size()));
  const auto [entry, added] = store_.entries_.try_emplace(key);
  Step step{Step::What::kValue, &key, std::nullopt, {}};
  store_.bytes_ += value.size();
  if (added) {
    store_.bytes_ += key.size();
    ++moves_;
  } else {
    store_.bytes_ -= entry->second.value.size();
    step.before = std::move(entry->second);
  }
  entry->second = {std::move(value), 0};
  step.entry = entry;
  step.moves = moves_;
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

void KeyValues::Batch::Push(const std::string& key, std::string element, bool at_head) {
  store_.bytes_ += key.size() + element.size();
  ++store_.queued_;
  auto& queue = store_.queues_[key];
  at_head ? queue.push_front(std::move(element)) : queue.push_back(std::move(element));
}

std::string KeyValues::Batch::Pop(const std::string& key, bool from_head) {
  const auto queue = store_.queues_.find(key);
  std::string element = std::move(from_head ? queue->second.front() : queue->second.back());
  from_head ? queue->second.pop_front() : queue->second.pop_back();
  if (queue->second.empty()) store_.queues_.erase(queue);
  store_.bytes_ -= key.size() + element.size();
  --store_.queued_;
  return element;
}

void KeyValues::Batch::Restore(const std::string& key, std::optional<Entry> before) {
  if (const auto entry = store_.entries_.find(key); entry != store_.entries_.end()) {
    store_.bytes_ -= key.size() + entry->second.value.size();
    store_.entries_.erase(entry);
    ++moves_;
  }
  if (!before.has_value()) return;
  store_.bytes_ += key.size() + before->value.size();
  store_.entries_.emplace(key, *std::move(before));
}

void KeyValues::Batch::Undo() {
  for (; !steps_.empty(); steps_.pop_back()) UndoStep(std::move(steps_.back()));
}

void KeyValues::Batch::UndoStep(Step step) {
  switch (step.what) {
    case Step::What::kValue:
      return Restore(*step.key, std::move(step.before));
    case Step::What::kPush:
      (void)Pop(*step.key, /*from_head=*/false);  // exactly the element that was pushed
      return;
    case Step::What::kPop:
      return Push(*step.key, std::move(step.element), /*at_head=*/true);
  }
}

void KeyValues::Batch::Commit(Applied* applied) {
  // Groups the steps by name, in their order.
  absl::InlinedVector<const Step*, 1> steps;
  for (const Step& step : steps_) steps.push_back(&step);
  std::sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) {
    const int order = a->key->compare(*b->key);
    return order != 0 ? order < 0 : a < b;
  });
  for (size_t i = 0; i < steps.size();) {
    const std::string& key = *steps[i]->key;
    const Step* first = nullptr;  // of the steps that set or deleted the value
    const Step* last = nullptr;
    size_t pushes = 0, pops = 0;
    for (; i < steps.size() && *steps[i]->key == key; ++i) {
      if (steps[i]->what == Step::What::kPush) ++pushes;
      if (steps[i]->what == Step::What::kPop) ++pops;
      if (steps[i]->what != Step::What::kValue) applied->any = true;
      if (steps[i]->what != Step::What::kValue) continue;
      if (first == nullptr) first = steps[i];
      last = steps[i];
    }
    if (first != nullptr && Settle(*last, first->before)) applied->changed.push_back(key);
    if (pushes > 0) applied->pushed.insert(applied->pushed.end(), Left(key, pushes), key);
    applied->taken.insert(applied->taken.end(), pops, key);
  }
  applied->any = applied->any || !applied->changed.empty();
  if (applied->any) ++store_.revision_;
}

size_t KeyValues::Batch::Left(const std::string& queue, size_t pushes) const {
  const auto found = store_.queues_.find(queue);
  return found == store_.queues_.end() ? 0 : std::min(pushes, found->second.size());
}

bool KeyValues::Batch::Settle(const Step& last, const std::optional<Entry>& before) {
  const uint64_t revision = store_.revision_ + 1;
  const auto entry = EntryOf(last);
  if (entry == store_.entries_.end()) {
    if (before.has_value()) store_.deletion_ = revision;
    return before.has_value();
  }
  const bool same = before.has_value() && before->value == entry->second.value;
  entry->second.version = same ? before->version : revision;
  return !same;
}

KeyValues::Map::iterator KeyValues::Batch::EntryOf(const Step& step) {
  return step.moves == moves_ ? step.entry : store_.entries_.find(*step.key);
}

}  // namespace dp
