#pragma once

#include "dp/v1/worlds.pb.h"
#include "server/core/world.h"

namespace dp::server {

v1::World ToProto(const core::World& world);

}  // namespace dp::server
