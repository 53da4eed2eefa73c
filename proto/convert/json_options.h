#pragma once

#include "google/protobuf/stubs/common.h"
#include "google/protobuf/util/json_util.h"

namespace dp {

// Lets fields be printed that have their default values. Protocol Buffers 26 have renamed the
// option.
inline void PrintDefaults(google::protobuf::util::JsonPrintOptions* options) {
#if GOOGLE_PROTOBUF_VERSION >= 5026000
  options->always_print_fields_with_no_presence = true;
#else
  options->always_print_primitive_fields = true;
#endif
}

}  // namespace dp
