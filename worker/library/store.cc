#include "dp/store.h"

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "worker/library/dist_error.h"
#include "worker/library/grpc_place.h"
#include "worker/library/init_method.h"
#include "worker/library/open_store.h"

namespace dp::distributed {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

absl::Span<const std::string> View(std::span<const std::string> texts) {
  return {texts.data(), texts.size()};
}

template <typename T>
T StoreOrThrow(absl::StatusOr<T> value) {
  return library::OrThrow(std::move(value), library::ErrorSource::kStore);
}

dp::Store& StoreIn(const Store& handle) { return *library::OpenedIn(handle)->store; }

void StoreOrThrow(const absl::Status& status) {
  library::OrThrow(status, library::ErrorSource::kStore);
}

}  // namespace

void Store::set(std::string_view key, std::string_view value) const {
  StoreOrThrow(StoreIn(*this).Set(View(key), View(value)));
}

void Store::multi_set(std::span<const std::pair<std::string, std::string>> pairs) const {
  std::vector<dp::Store::Pair> all;
  for (const auto& [key, value] : pairs) all.push_back({key, value});
  StoreOrThrow(StoreIn(*this).MultiSet(all));
}

void Store::append(std::string_view key, std::string_view value) const {
  StoreOrThrow(StoreIn(*this).Append(View(key), View(value)));
}

std::string Store::get(std::string_view key) const {
  return StoreOrThrow(StoreIn(*this).Get(View(key), absl::FromChrono(timeout_)));
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys) const {
  return StoreOrThrow(StoreIn(*this).MultiGet(View(keys), absl::FromChrono(timeout_)));
}

void Store::wait(std::span<const std::string> keys) const { wait(keys, timeout_); }

void Store::wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) const {
  StoreOrThrow(StoreIn(*this).Wait(View(keys), absl::FromChrono(timeout)));
}

bool Store::check(std::span<const std::string> keys) const {
  return StoreOrThrow(StoreIn(*this).Check(View(keys)));
}

int64_t Store::add(std::string_view key, int64_t amount) const {
  return StoreOrThrow(StoreIn(*this).Add(View(key), amount));
}

std::string Store::compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired) const {
  return StoreOrThrow(StoreIn(*this).CompareSet(View(key), View(expected), View(desired)));
}

bool Store::delete_key(std::string_view key) const {
  return StoreOrThrow(StoreIn(*this).Delete(View(key)));
}

int64_t Store::num_keys() const { return StoreOrThrow(StoreIn(*this).NumKeys()); }

std::vector<std::string> Store::list_keys() const {
  return StoreOrThrow(StoreIn(*this).ListKeys());
}

int64_t Store::queue_push(std::string_view key, std::string_view value) const {
  return StoreOrThrow(StoreIn(*this).QueuePush(View(key), View(value)));
}

std::string Store::queue_pop(std::string_view key) const {
  return StoreOrThrow(StoreIn(*this).QueuePop(View(key), absl::FromChrono(timeout_)));
}

int64_t Store::queue_len(std::string_view key) const {
  return StoreOrThrow(StoreIn(*this).QueueLength(View(key)));
}

HashStore::HashStore() : Store(library::OpenHashStore()) {}

FileStore::FileStore(const std::string& path, int world_size)
    : Store(StoreOrThrow(library::OpenFileStore(path, world_size))) {}

TcpStore::TcpStore(const TcpStoreOptions& options) : Store(nullptr) {
  library::OpenTcp tcp = StoreOrThrow(library::OpenTcpStore(options));
  static_cast<Store&>(*this) = Store(std::move(tcp.store));
  set_timeout(options.timeout);
  port_ = tcp.port;
}

GrpcStore::GrpcStore(const GrpcStoreOptions& options)
    : Store(StoreOrThrow(library::OpenGrpcStore(options, library::VariablesOfProcess()))) {
  set_timeout(options.timeout);
}

PrefixStore::PrefixStore(std::string_view prefix, const Store& store)
    : Store(library::OpenPrefixStore(View(prefix), library::OpenedIn(store))) {
  set_timeout(store.timeout());
}

}  // namespace dp::distributed
