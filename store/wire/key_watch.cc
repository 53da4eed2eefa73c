#include "store/wire/key_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "store/wire/fields.h"
#include "store/wire/protocol.h"

namespace dp::wire {
namespace {

// Only tests of PyTorch are known to watch keys.
constexpr size_t kWatchesMax = 1024;
// Copies of a value: held here, on its way from the store, and in two notifications, as the new and
// then as the previous value.
constexpr size_t kCopies = 4;

}  // namespace

KeyWatches::~KeyWatches() {
  for (const Watch& watch : watches_)
    if (watch.waiting) store_.Cancel(watch.wait);
  memory_.GiveOfWaits(taken_);
}

absl::Status KeyWatches::Add(std::string key, const StoreResult& now) {
  if (watches_.size() >= kWatchesMax)
    return absl::ResourceExhaustedError(
        absl::StrCat("connection watches ", kWatchesMax, " keys, the limit"));
  DP_RETURN_IF_ERROR(HoldInstead("", now.value));
  watches_.push_back({std::move(key), now.found, now.value, now.version});
  ++idle_;
  return absl::OkStatus();
}

absl::Status KeyWatches::HoldInstead(const std::string& before, const std::string& now) {
  const size_t had = kCopies * before.size(), needed = kCopies * now.size();
  if (needed > had && !memory_.TakeForWaits(needed - had))
    return absl::ResourceExhaustedError(absl::StrCat("no room to watch a value of ", now.size(),
                                                     " bytes: the waits of all clients may take ",
                                                     memory_.waits_max(), "; ", memory_.remedy()));
  if (needed < had) memory_.GiveOfWaits(had - needed);
  taken_ = taken_ - had + needed;
  return absl::OkStatus();
}

absl::Status KeyWatches::OnChange(size_t index, const StoreResult& now, std::string* out) {
  Watch& watch = watches_[index];
  watch.waiting = false;
  ++idle_;
  watch.version = now.version;
  const bool present = now.number > 0;
  if (present == watch.present && (!present || now.value == watch.value)) return absl::OkStatus();
  const std::string value = present ? now.value : "";
  DP_RETURN_IF_ERROR(HoldInstead(watch.value, value));
  out->push_back(static_cast<char>(!watch.present ? kKeyCreated
                                   : present      ? kKeyUpdated
                                                  : kKeyDeleted));
  AppendString(watch.key, out);
  AppendString(watch.value, out);
  watch.present = present;
  watch.value = value;
  AppendString(watch.value, out);
  return absl::OkStatus();
}

void KeyWatches::Resume() {
  if (idle_ == 0) return;
  for (size_t i = 0; i < watches_.size(); ++i) {
    Watch& watch = watches_[i];
    if (watch.waiting) continue;
    watch.waiting = true;
    std::vector<StoreOperation> reads;
    reads.push_back(StoreNewer{watch.key, watch.version});
    watch.wait = store_.Await(std::move(reads), answer_to_(i));
  }
  idle_ = 0;
}

}  // namespace dp::wire
