#pragma once

// Users write dp::all_reduce. dp's own sources have other names in namespace dp, so the library's
// names are in dp::distributed there.

namespace dp {
namespace distributed {}
#ifndef DP_IN_TREE
using namespace distributed;  // NOLINT
#endif
}  // namespace dp
