#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp {

// What a program tells the service manager that started it, in systemd's protocol: a datagram to
// the socket named by NOTIFY_SOCKET for each message (sd_notify(3)). Where there is none, it tells
// nothing. Nothing here blocks or fails: a service must not depend on who watches it.
// One thread at a time; Alive belongs to the loop that is watched.
class NotifySocket {
 public:
  // Tells nobody.
  NotifySocket() = default;
  // `socket` as in NOTIFY_SOCKET; a service that shows no sign of life for `watchdog` is killed.
  NotifySocket(const std::string& socket, absl::Duration watchdog);
  // Takes the variables of the protocol out of the environment, so that no child speaks for this
  // process. Before any thread starts.
  static NotifySocket TakeFromEnvironment();

  // The service works from now on; `status` is for people, as in `systemctl status`.
  void Ready(absl::string_view status) const;
  void Status(absl::string_view status) const;
  void Stopping() const;

  // How often the loop must come round; infinite where nobody watches it.
  absl::Duration pulse() const { return pulse_; }
  // The loop has come round. Cheap: it is told on once a pulse.
  void Alive(absl::Time now);

 private:
  void Send(absl::string_view message) const;

  FileDescriptor fd_;
  absl::Duration pulse_ = absl::InfiniteDuration();
  absl::Time alive_at_ = absl::InfinitePast();
};

}  // namespace dp
