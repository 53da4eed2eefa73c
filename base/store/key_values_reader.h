#pragma once

#include <string>
#include <vector>

#include "base/store/key_values.h"

namespace dp {

// The meaning of the operations that read. Borrows what it reads; owned by one call.
class KeyValues::Reader {
 public:
  explicit Reader(const KeyValues& store) : store_(store) {}

  // The operation must be a read.
  StoreResult Answer(const StoreOperation& read) const;
  // What the answer says of it, without its values.
  bool Found(const StoreOperation& read) const;
  // Appends what the read waits for; nothing where it is found already, or no read.
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

// The number that `text` begins with, read as strtoll does: blanks and a sign may come first, what
// follows the digits is ignored. False where there is none, or none of 64 bits.
bool LeadingNumber(const std::string& text, int64_t* number);

}  // namespace dp
