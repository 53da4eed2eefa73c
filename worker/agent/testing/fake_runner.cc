#include "worker/agent/testing/fake_runner.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace dp::worker {

std::string FakeRunner::NextOrder() {
  if (unread_.empty()) unread_ = orders_.DrainFor(absl::Seconds(20));
  if (unread_.empty()) return "timeout";
  std::string next = unread_.front();
  unread_.erase(unread_.begin());
  return next;
}

void FakeRunner::Tell(int rank, decltype(ProcessNews::what) what) {
  mailbox_.Tell(ProcessNews{{JobId(1), Generation(1), rank}, std::move(what)});
}

void FakeRunner::Start(const RankKey& key, RankCommand command) {
  command_ = std::move(command);
  Record("start", key);
}

void FakeRunner::Terminate(const RankKey& key) { Record("terminate", key); }

void FakeRunner::Kill(const RankKey& key) {
  Record("kill", key);
  mailbox_.Tell(ProcessNews{key, ProcessExited{{Exit::How::kSignal, SIGKILL}}});
  mailbox_.Tell(ProcessNews{key, ProcessGone{}});
}

void FakeRunner::Record(const std::string& verb, const RankKey& key) {
  std::string order = absl::StrCat(verb, " ", key.rank);
  DP_CHECK(orders_.TryPush(order));
}

}  // namespace dp::worker
