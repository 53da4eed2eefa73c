#include "server/parameters/task_threads.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/driver/busy.h"

namespace dp::server {
namespace {

// Each call has one task at most, so this is more than there are streams and pulls that wait.
constexpr size_t kTasksMax = 32'768;

}  // namespace

TaskThreads::TaskThreads(std::string name, int threads)
    : name_(std::move(name)), queue_(kTasksMax) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

TaskThreads::~TaskThreads() { Stop(); }

absl::Status TaskThreads::Submit(std::function<void()> task) {
  if (queue_.TryPush(task)) return absl::OkStatus();
  if (queue_.closed()) return absl::UnavailableError("the coordinator is stopping");
  return Busy(absl::StrCat(kTasksMax, " chunks of parameters"));
}

void TaskThreads::Stop() {
  queue_.Close();
  threads_.clear();
}

void TaskThreads::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  while (true) {
    const auto tasks = queue_.DrainFor(absl::InfiniteDuration(), 1);
    if (tasks.empty() && queue_.closed()) return;
    for (const auto& task : tasks) task();
  }
}

}  // namespace dp::server
