#pragma once

#include <map>
#include <string>

#include "base/file_descriptor.h"
#include "server/core/job.h"

namespace dp::server {

// Whether the job's store is the coordinator's to serve.
bool IsDirect(const core::Job& job);

// The ports of stores that the coordinator is going to serve: each is listened at from the moment
// of its choice on, so that no other program can take it before its store is served, and ranks that
// are there earlier wait instead of being refused. Owned by main; used on the driver's thread only.
class DirectPorts {
 public:
  // All are at this address, as numbers: nothing is looked up here.
  explicit DirectPorts(std::string address) : address_(std::move(address)) {}
  DirectPorts(const DirectPorts&) = delete;
  DirectPorts& operator=(const DirectPorts&) = delete;

  // Whether the job could have the port for its store, which may be another's to serve; else it is
  // kept for it, until somebody takes it or drops it, or another job could have it.
  bool Keep(const core::Job& job, int port);
  // The listening socket; not valid where the port is not kept.
  FileDescriptor Take(int port);
  // Gives up what was kept and not taken: its job was placed otherwise, or not at all.
  void DropOthers() { kept_.clear(); }

  const std::string& address() const { return address_; }

 private:
  const std::string address_;
  std::map<int, FileDescriptor> kept_;  // by port
};

}  // namespace dp::server
