#include "server/tcpstore/direct_ports.h"

#include <cstdint>
#include <utility>

#include "server/convert/convert_job.h"
#include "store/wire/socket.h"

namespace dp::server {

bool IsDirect(const core::Job& job) {
  return ParseSpec(job.spec.payload).command().store() == "direct";
}

bool DirectPorts::Keep(const core::Job& job, int port) {
  const bool direct = IsDirect(job);
  // A daemon on this host may have to serve on the port.
  if (!direct) kept_.erase(port);
  if (!direct || kept_.contains(port)) return true;
  auto listener = wire::Listen(address_, static_cast<uint16_t>(port));
  if (!listener.ok()) return false;
  kept_[port] = *std::move(listener);
  return true;
}

FileDescriptor DirectPorts::Take(int port) {
  auto kept = kept_.extract(port);
  return kept.empty() ? FileDescriptor() : std::move(kept.mapped());
}

}  // namespace dp::server
