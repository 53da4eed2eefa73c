#pragma once

#include "client/dpctl/view/json_writer.h"
#include "dp/v1/parameters.pb.h"

namespace dp::ctl {

// A version of parameters that the coordinator keeps. Its tensors and texts are null in lists.
void WriteVersion(const v1::ParameterVersion& version, JsonWriter& json);

}  // namespace dp::ctl
