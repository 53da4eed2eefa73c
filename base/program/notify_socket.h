#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"

namespace dp {

// Sends messages to the service manager that started the program. In systemd's protocol
// (sd_notify(3)) each message is a datagram to the socket named by NOTIFY_SOCKET. Without that
// socket every call is a no-op. Nothing here blocks or fails: a service must not depend on its
// manager.
// One thread at a time; Alive belongs to the watched loop.
class NotifySocket {
 public:
  // Sends nothing.
  NotifySocket() = default;
  // `socket` as in NOTIFY_SOCKET. The manager kills a service that is silent for `watchdog`.
  NotifySocket(const std::string& socket, absl::Duration watchdog);
  // Removes the protocol's variables from the environment, so that no child speaks for this
  // process. Call it before any thread starts.
  static NotifySocket TakeFromEnvironment();

  // Reports that the service works from now on; `status` is for people, as in `systemctl status`.
  void Ready(absl::string_view status) const;
  void Status(absl::string_view status) const;
  void Stopping() const;

  // How often the loop must call Alive; infinite without a watchdog.
  absl::Duration pulse() const { return pulse_; }
  // Reports that the loop has completed a turn. Cheap: sends at most once a pulse.
  void Alive(absl::Time now);

 private:
  void Send(absl::string_view message) const;

  FileDescriptor fd_;
  absl::Duration pulse_ = absl::InfiniteDuration();
  absl::Time alive_at_ = absl::InfinitePast();
};

}  // namespace dp
