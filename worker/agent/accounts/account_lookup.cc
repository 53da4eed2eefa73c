#include "worker/agent/accounts/account_lookup.h"

#include <pthread.h>

#include <utility>

#include "base/check.h"

namespace dp::worker {

AccountLookup::AccountLookup(Find find, Found found)
    : find_(std::move(find)), found_(std::move(found)) {
  thread_ = std::jthread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "accounts");
}

AccountLookup::~AccountLookup() { questions_.Close(); }

void AccountLookup::Ask(const std::string& name) {
  std::string question = name;
  const bool taken = questions_.TryPush(question);
  DP_CHECK(taken || questions_.closed());
}

void AccountLookup::Loop() {
  while (!questions_.closed()) {
    for (const std::string& name : questions_.DrainFor(absl::InfiniteDuration())) {
      found_(name, find_(name));
    }
  }
}

}  // namespace dp::worker
