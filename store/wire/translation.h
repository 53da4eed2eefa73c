#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "store/operation.h"
#include "store/wire/protocol.h"

// Translates between requests of the wire and operations of a store.

namespace dp::wire {

// The operations of a request that is answered at once; not for waits, nor for multi_get, which is
// answered in parts. Moves the strings out of `fields`.
std::vector<StoreOperation> OperationsOf(Verb verb, Fields fields);

// The reads of a wait: each of the keys, or a queue of that name.
std::vector<StoreOperation> ReadsOf(std::vector<std::string> keys);

// Appends the reply to the verb, in the wire's form.
void AppendReply(Verb verb, absl::Span<const StoreResult> results, std::string* out);

}  // namespace dp::wire
