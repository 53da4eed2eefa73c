#pragma once

#include <string>
#include <vector>

#include "store/key_values.h"

namespace dp {

// The meaning of the operations that read. Borrows the store; owned by one call.
class KeyValues::Reader {
 public:
  explicit Reader(const KeyValues& store) : store_(store) {}

  // The operation must be a read.
  StoreResult Answer(const StoreOperation& read) const;
  // `found` of the answer, without copying values.
  bool Found(const StoreOperation& read) const;
  // Appends what the read waits for; nothing if it is found already or is no read.
  void Explain(const StoreOperation& read, std::vector<Unmet>& unmet) const;

  StoreResult Run(const StoreGet& get) const;
  StoreResult Run(const StoreCheck& check) const;
  StoreResult Run(const StoreList& list) const;
  StoreResult Run(const StoreQueueLength& length) const;
  StoreResult Run(const StoreReached& reached) const;
  StoreResult Run(const StoreNewer& newer) const;

 private:
  bool Present(const std::string& name) const;

  const KeyValues& store_;
};

// The number at the start of `text`, as strtoll reads it: blanks and a sign may come first, and the
// rest is ignored. False if there is no number, or none that fits 64 bits.
bool LeadingNumber(const std::string& text, int64_t* number);

}  // namespace dp
