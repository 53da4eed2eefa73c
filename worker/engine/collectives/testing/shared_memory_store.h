#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "base/check.h"
#include "store/store.h"

namespace dp::engine {

// A store in memory that is shared by processes forked from this one: the processes of a test or
// benchmark find each other through it. Supports set and get only; keys are set once.
class SharedMemoryStore : public Store {
 public:
  SharedMemoryStore() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DP_CHECK(memory != MAP_FAILED);
    shared_ = new (memory) Shared;
    pthread_mutexattr_t mutex;
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared_->mutex, &mutex);
    pthread_condattr_t changed;
    pthread_condattr_init(&changed);
    pthread_condattr_setpshared(&changed, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared_->changed, &changed);
  }
  ~SharedMemoryStore() override { munmap(shared_, sizeof(Shared)); }

  absl::StatusOr<std::vector<StoreResult>> Execute(
      absl::Span<const StoreOperation> operations) override {
    std::vector<StoreResult> results;
    pthread_mutex_lock(&shared_->mutex);
    for (const StoreOperation& operation : operations) {
      if (const auto* set = std::get_if<StoreSet>(&operation)) {
        Put(*set);
        results.emplace_back();
      } else {
        const auto* get = std::get_if<StoreGet>(&operation);
        DP_CHECK(get != nullptr);
        const Entry* entry = Find(get->key);
        results.push_back({.found = entry != nullptr, .value = entry ? Value(*entry) : ""});
      }
    }
    pthread_mutex_unlock(&shared_->mutex);
    return results;
  }

  absl::StatusOr<std::vector<StoreResult>> Await(absl::Span<const StoreOperation> reads,
                                                 absl::Duration timeout) override {
    const timespec deadline = absl::ToTimespec(absl::Now() + timeout);
    std::vector<StoreResult> results;
    pthread_mutex_lock(&shared_->mutex);
    for (const StoreOperation& read : reads) {
      const auto* get = std::get_if<StoreGet>(&read);
      DP_CHECK(get != nullptr);
      while (Find(get->key) == nullptr)
        if (pthread_cond_timedwait(&shared_->changed, &shared_->mutex, &deadline) != 0) break;
      if (const Entry* entry = Find(get->key)) results.push_back({true, Value(*entry)});
    }
    pthread_mutex_unlock(&shared_->mutex);
    if (results.size() < reads.size()) return absl::DeadlineExceededError("keys are missing");
    return results;
  }

 private:
  struct Entry {
    size_t key_bytes = 0, value_bytes = 0;
    char key[64], value[4096];
  };
  struct Shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t count = 0;
    Entry entries[64];
  };

  static std::string Value(const Entry& entry) { return {entry.value, entry.value_bytes}; }

  const Entry* Find(const std::string& key) const {
    for (size_t i = 0; i < shared_->count; ++i) {
      const Entry& entry = shared_->entries[i];
      if (key == std::string(entry.key, entry.key_bytes)) return &entry;
    }
    return nullptr;
  }

  void Put(const StoreSet& set) {
    DP_CHECK(shared_->count < 64 && set.key.size() <= 64 && set.value.size() <= 4096);
    Entry& entry = shared_->entries[shared_->count++];
    entry.key_bytes = set.key.size();
    entry.value_bytes = set.value.size();
    std::memcpy(entry.key, set.key.data(), set.key.size());
    std::memcpy(entry.value, set.value.data(), set.value.size());
    pthread_cond_broadcast(&shared_->changed);
  }

  Shared* shared_ = nullptr;
};

}  // namespace dp::engine
