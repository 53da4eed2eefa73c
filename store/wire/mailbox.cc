#include "store/wire/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace dp::wire {

absl::StatusOr<std::shared_ptr<Mailbox>> Mailbox::Open() {
  FileDescriptor event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event.valid()) return ErrnoStatus("eventfd");
  return std::shared_ptr<Mailbox>(new Mailbox(std::move(event)));
}

void Mailbox::Send(Answer answer) {
  if (std::this_thread::get_id() == owner_.load(std::memory_order_relaxed)) {
    own_.push_back(std::move(answer));
    return;
  }
  bool first = false;
  {
    MutexLock lock(mu_);
    first = others_.empty();
    others_.push_back(std::move(answer));
  }
  if (first) Wake();
}

void Mailbox::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the owner is awake.
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof(one));
}

std::vector<Answer> Mailbox::TakeOwn(std::vector<Answer> spent) {
  return std::exchange(own_, std::move(spent));
}

std::vector<Answer> Mailbox::TakeOthers() {
  uint64_t count = 0;
  // Before the answers are taken, so that a later answer wakes the owner again.
  [[maybe_unused]] const ssize_t cleared = read(event_.get(), &count, sizeof(count));
  MutexLock lock(mu_);
  return std::exchange(others_, {});
}

}  // namespace dp::wire
