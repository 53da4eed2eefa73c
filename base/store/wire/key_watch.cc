#include "base/store/wire/key_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/store/wire/fields.h"
#include "base/store/wire/protocol.h"

namespace dp::wire {
namespace {

// Nobody but tests of PyTorch is known to watch at all.
constexpr size_t kWatchesMax = 1024;

}  // namespace

KeyWatches::~KeyWatches() {
  for (const Watch& watch : watches_)
    if (watch.waiting) store_.Cancel(watch.wait);
}

absl::Status KeyWatches::Add(std::string key, const StoreResult& now) {
  if (watches_.size() >= kWatchesMax)
    return absl::ResourceExhaustedError(
        absl::StrCat("connection watches ", kWatchesMax, " keys, the limit"));
  watches_.push_back({std::move(key), now.found, now.value, now.version});
  ++idle_;
  return absl::OkStatus();
}

void KeyWatches::OnChange(size_t index, const StoreResult& now, std::string* out) {
  Watch& watch = watches_[index];
  watch.waiting = false;
  ++idle_;
  watch.version = now.version;
  const bool present = now.number > 0;
  if (present == watch.present && (!present || now.value == watch.value)) return;
  out->push_back(static_cast<char>(!watch.present ? kKeyCreated
                                   : present      ? kKeyUpdated
                                                  : kKeyDeleted));
  AppendString(watch.key, out);
  AppendString(watch.value, out);
  watch.present = present;
  watch.value = present ? now.value : "";
  AppendString(watch.value, out);
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
