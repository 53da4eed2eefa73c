#include "worker/library/open_store.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "dp/errors.h"
#include "store/file_store.h"
#include "store/hash_store.h"
#include "store/prefix_store.h"

namespace dp::library {

const std::shared_ptr<OpenStore>& OpenedIn(const distributed::Store& handle) {
  if (handle.open() != nullptr) return handle.open();
  throw distributed::DistError(
      distributed::ErrorKind::kWrongState,
      "the Store was moved from and has no keys; use the Store that it moved to, or a copy");
}

std::shared_ptr<OpenStore> OpenHashStore() {
  return std::make_shared<OpenStore>(
      OpenStore{nullptr, std::make_unique<HashStore>(), "127.0.0.1"});
}

absl::StatusOr<std::shared_ptr<OpenStore>> OpenFileStore(const std::string& path, int world_size) {
  DP_ASSIGN_OR_RETURN(std::unique_ptr<FileStore> store, FileStore::Open(path, world_size));
  return std::make_shared<OpenStore>(OpenStore{nullptr, std::move(store), ""});
}

std::shared_ptr<OpenStore> OpenPrefixStore(absl::string_view prefix,
                                           const std::shared_ptr<OpenStore>& below) {
  auto store = std::make_unique<PrefixStore>(absl::StrCat(prefix, "/"), *below->store);
  return std::make_shared<OpenStore>(OpenStore{below, std::move(store), below->own_address});
}

}  // namespace dp::library
