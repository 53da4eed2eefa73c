#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/store/operation.h"
#include "base/store/wire/protocol.h"

// Between the requests of the wire and the operations of a store.

namespace dp::wire {

// What a request that is answered at once asks of the store; not for those that wait, nor for
// multi_get, which is answered in parts. Takes the strings out of `fields`.
std::vector<StoreOperation> OperationsOf(Verb verb, Fields fields);

// What a wait is for: each of the keys, or a queue of that name.
std::vector<StoreOperation> ReadsOf(std::vector<std::string> keys);

// Appends the answer to the verb, in the wire's form.
void AppendReply(Verb verb, absl::Span<const StoreResult> results, std::string* out);

}  // namespace dp::wire
