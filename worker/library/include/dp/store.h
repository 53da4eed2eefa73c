#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dp::library {
struct OpenStore;
}

namespace dp::distributed {

// Keys, values and queues that ranks share, with the meaning of PyTorch's stores (docs/store.md).
// A Store is a handle: its copies name the same keys, and the store lives as long as one of them.
// Made as a HashStore, FileStore, TcpStore, GrpcStore or PrefixStore. Thread-safe, but for
// set_timeout. Errors of every verb: kUnreachable the store's server or its file. kLimit a key, a
// value or the store is too large. kUnsupported the server's protocol has no such verb. kWrongState
// the handle was moved from.
class Store {
 public:
  // How long get, wait, multi_get and queue_pop wait unless set_timeout has changed it.
  static constexpr std::chrono::milliseconds kTimeout = std::chrono::minutes(5);

  void set(std::string_view key, std::string_view value) const;
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs) const;
  void append(std::string_view key, std::string_view value) const;
  // Wait for their keys. Errors: kTimeout names the missing keys.
  std::string get(std::string_view key) const;
  std::vector<std::string> multi_get(std::span<const std::string> keys) const;
  void wait(std::span<const std::string> keys) const;
  void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) const;
  // Whether wait would return at once.
  bool check(std::span<const std::string> keys) const;
  // Returns the sum. Errors: kInvalidArgument the value does not begin with a number.
  int64_t add(std::string_view key, int64_t amount) const;
  // Returns the value afterwards; `expected` if the key is absent and was not set.
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired) const;
  // Returns whether the key was there.
  bool delete_key(std::string_view key) const;
  int64_t num_keys() const;
  std::vector<std::string> list_keys() const;

  // A queue is independent of the key of the same name. Returns its length afterwards.
  int64_t queue_push(std::string_view key, std::string_view value) const;
  // Waits for an element and takes it; each goes to one caller. Errors: kTimeout.
  std::string queue_pop(std::string_view key) const;
  int64_t queue_len(std::string_view key) const;

  // Holds for this handle, and for copies that are made later.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // For the library itself.
  explicit Store(std::shared_ptr<library::OpenStore> open) : open_(std::move(open)) {}
  const std::shared_ptr<library::OpenStore>& open() const { return open_; }

 private:
  std::shared_ptr<library::OpenStore> open_;
  std::chrono::milliseconds timeout_ = kTimeout;
};

// A store in the memory of one process, for ranks that are its threads.
class HashStore : public Store {
 public:
  HashStore();
};

// A store in a file, for processes that share a file system with fcntl locks. The first of
// `world_size` members creates the file, the last to leave removes it.
class FileStore : public Store {
 public:
  // Errors: kInvalidArgument no such directory, or the file is no store, or world_size is not 1 to
  // 100,000. PyTorch's -1, an unknown number, is none: nobody could tell an earlier run's file.
  // kWrongState an earlier run's file, which the message says; kUnreachable the file system.
  FileStore(const std::string& path, int world_size);
};

struct TcpStoreOptions {
  std::string host;   // where is_master serves; 0.0.0.0 or :: is every address
  uint16_t port = 0;  // with is_master 0 is any free port
  // Whether this process serves the store, which then lives as long as its handles here.
  bool is_master = false;
  // To connect, also to a server that does not listen yet; afterwards the handle's timeout.
  std::chrono::milliseconds timeout = Store::kTimeout;
};

// The store behind a TCPStore server: this library's, PyTorch's, or that of a launcher. The
// protocol has neither encryption nor authentication.
class TcpStore : public Store {
 public:
  // Errors: kInvalidArgument no such host, or a client's port is 0. kWrongState is_master, and
  // another program listens there; kTimeout nobody listened in time; kUnreachable it does not speak
  // the protocol.
  explicit TcpStore(const TcpStoreOptions& options);
  // The server's port.
  uint16_t port() const { return port_; }

 private:
  uint16_t port_;
};

struct GrpcStoreOptions {
  // HOST:PORT; empty: DP_COORDINATOR.
  std::string coordinator = {};
  // Without them DP_JOB and DP_GENERATION. Both belong together.
  std::optional<uint64_t> job = {}, generation = {};
  // The directory with a rank's token, or with a login; empty: DP_CREDENTIALS.
  std::string credentials = {};
  // To reach the coordinator, 30 s at most; afterwards the handle's timeout.
  std::chrono::milliseconds timeout = Store::kTimeout;
};

// The coordinator's store for one generation of a job, over gRPC with TLS. A rank needs no options:
// its daemon has set the variables. While the coordinator restarts, for up to 30 s, waits go on and
// changes are repeated, and applied once. Not for use across a fork: open it in each process.
// Errors of every verb beyond Store's: kWrongState the generation is over; kAborted it ended during
// a wait; kInvalidArgument the credential counts no more.
class GrpcStore : public Store {
 public:
  // Errors: kInvalidArgument a variable is missing, or the coordinator refuses the job or the
  // credential. kWrongState the generation is over. kUnreachable no coordinator. kUnsupported this
  // build or this host has no gRPC.
  explicit GrpcStore(const GrpcStoreOptions& options = {});
};

// A namespace within another store: puts `prefix` and a slash before every key.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string_view prefix, const Store& store);
};

}  // namespace dp::distributed
