#pragma once

#include <cstddef>

namespace dp {

// The soft limit for a program that this process starts: `wanted`, at most the hard limit and at
// least the soft limit of this process.
size_t DescriptorLimitFor(size_t wanted);

// Raises the soft limit of this process to the hard limit, and returns the new limit. If that fails
// the limit stays, and fewer clients can connect. Child processes inherit the limit.
size_t RaiseDescriptorLimit();

// A program keeps its last descriptors for its own files: a sixteenth of the soft limit, from 64 to
// 1,024. Says whether a descriptor that was just opened is one of these; as a connection it should
// be closed. A new descriptor has the lowest free number, so all lower ones are in use.
bool IsReservedDescriptor(int descriptor);

}  // namespace dp
