#pragma once

#include "dp/ddp.h"

namespace dp::library {

// Averages a bucket by one all-reduce of elements of `type`, in memory of its own unless the
// gradients have that type.
distributed::CommHook AllReduceAs(distributed::DataType type);

}  // namespace dp::library
