#pragma once

#include <cstddef>
#include <initializer_list>

#include "absl/strings/string_view.h"
#include "dp/distributed.h"
#include "worker/engine/collectives/group.h"
#include "worker/library/joined_group.h"

// A caller's arrays and reductions as the engine takes them, and the checks that come first. The
// checks throw DistError of kInvalidArgument, which names the verb, both values and the remedy.

namespace dp::library {

engine::DataType TypeInEngine(distributed::DataType type);
engine::Elements InEngine(const distributed::MutableElements& elements);
engine::ConstElements InEngine(const distributed::Elements& elements);
engine::ReduceOp InEngine(distributed::ReduceOp op, distributed::DataType type,
                          const JoinedGroup& group);

// Back again.
distributed::DataType TypeOutside(engine::DataType type);
distributed::ReduceOp OpOutside(engine::ReduceOp op);

// `array` has memory.
void CheckArray(const JoinedGroup& group, absl::string_view verb,
                const distributed::Elements& array);
// The arrays of `verb` have one type, and do not overlap.
void CheckArrays(const JoinedGroup& group, absl::string_view verb,
                 const distributed::MutableElements& output, const distributed::Elements& input);
// `array` of `verb` has `count` elements: as many as `parts` parts of `part` elements. Throws
// kLimit if no size_t holds these.
void CheckCount(const JoinedGroup& group, absl::string_view verb, absl::string_view array,
                size_t count, size_t part, size_t parts);

// The rank in the group of the peer of a message.
int CheckPeer(const JoinedGroup& group, absl::string_view verb, int peer, int tag);

// Begins an operation of the group, whose end a wait awaits.
distributed::Work StartIn(JoinedGroup& group, const JoinedGroup::Begin& begin);
// The same for a `verb` of `arrays`. With backend nccl, the group that `begin` gets is that of the
// arrays' memory. A wait for an operation on a GPU then orders its result on the program's stream,
// unless waits block. Throws as AreOnDevice.
distributed::Work StartIn(JoinedGroup& group, absl::string_view verb,
                          std::initializer_list<distributed::Elements> arrays,
                          const JoinedGroup::Begin& begin);

}  // namespace dp::library
