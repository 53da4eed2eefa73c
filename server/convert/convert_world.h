#pragma once

#include "dp/v1/worlds.pb.h"
#include "server/core/world.h"

namespace dp::server {

v1::WorldState ToProto(core::WorldState state);
v1::Member ToProto(const core::Member& member);
core::MemberTable FromProto(v1::MemberTable table);
// A world as clients see it: its members in order of rank, and why it is not sealed or was closed.
v1::World ToProto(const core::World& world);

}  // namespace dp::server
