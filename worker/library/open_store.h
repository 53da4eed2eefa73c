#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dp/store.h"
#include "store/store.h"

namespace dp::library {

// A store that public handles share, and what must live as long as it.
struct OpenStore {
  // Its server, or the store below a prefix; null if there is none.
  std::shared_ptr<void> below;
  std::unique_ptr<dp::Store> store;
  // The address of this process, in digits, at which all who meet in this store can reach it. Empty
  // if the store does not tell.
  std::string own_address;
};

// The store of a handle. Throws kWrongState if the handle was moved from.
const std::shared_ptr<OpenStore>& OpenedIn(const distributed::Store& handle);

std::shared_ptr<OpenStore> OpenHashStore();
// Errors: those of FileStore::Open.
absl::StatusOr<std::shared_ptr<OpenStore>> OpenFileStore(const std::string& path, int world_size);
std::shared_ptr<OpenStore> OpenPrefixStore(absl::string_view prefix,
                                           const std::shared_ptr<OpenStore>& below);

struct OpenTcp {
  std::shared_ptr<OpenStore> store;
  uint16_t port = 0;
};
// Serves the store if the options say so, and connects to it. A client waits for a server that does
// not listen yet. A host that is not this machine's, as a service in front of it, is served on all
// addresses.
// Errors: InvalidArgument no such host; FailedPrecondition the port is taken; DeadlineExceeded
// nobody listens; DataLoss the server does not speak the protocol; Unavailable.
absl::StatusOr<OpenTcp> OpenTcpStore(const distributed::TcpStoreOptions& options);

}  // namespace dp::library
