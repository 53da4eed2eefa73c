#pragma once

#include <map>
#include <string>

#include "base/file_descriptor.h"
#include "server/core/job.h"

namespace dp::server {

// Whether the coordinator serves the job's store.
bool IsDirect(const core::Job& job);

// The ports of stores that the coordinator is going to serve. It listens on each port as soon as
// the port is chosen. No other program can take the port before the store is served, and ranks that
// connect early wait instead of being rejected. Owned by main; used on the driver's thread only.
class DirectPorts {
 public:
  // All ports are at this numeric address: nothing is resolved here.
  explicit DirectPorts(std::string address) : address_(std::move(address)) {}
  DirectPorts(const DirectPorts&) = delete;
  DirectPorts& operator=(const DirectPorts&) = delete;

  // Whether the job can use the port for its store. If the coordinator serves the store, the port
  // is kept until it is taken or dropped. If a daemon serves the store, the answer is yes, and the
  // port is no longer kept.
  bool Keep(const core::Job& job, int port);
  // The listening socket; invalid if the port is not kept.
  FileDescriptor Take(int port);
  // Closes the ports that were kept and not taken: their jobs were placed otherwise, or not at all.
  void DropOthers() { kept_.clear(); }

  const std::string& address() const { return address_; }

 private:
  const std::string address_;
  std::map<int, FileDescriptor> kept_;  // by port
};

}  // namespace dp::server
