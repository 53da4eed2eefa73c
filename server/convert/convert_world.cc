#include "server/convert/convert_world.h"

namespace dp::server {

v1::WorldState ToProto(core::WorldState state) {
  switch (state) {
    case core::WorldState::kForming:
      return v1::WORLD_STATE_FORMING;
    case core::WorldState::kSealed:
      return v1::WORLD_STATE_SEALED;
    case core::WorldState::kClosed:
      return v1::WORLD_STATE_CLOSED;
  }
  return v1::WORLD_STATE_UNSPECIFIED;
}

v1::Member ToProto(const core::Member& member) {
  v1::Member proto;
  proto.set_rank(member.rank);
  proto.set_worker(member.worker);
  proto.set_host(member.host);
  proto.set_address(member.address);
  return proto;
}

core::MemberTable FromProto(v1::MemberTable table) {
  return table == v1::MEMBER_TABLE_NONE ? core::MemberTable::kNone : core::MemberTable::kWhole;
}

v1::World ToProto(const core::World& world) {
  v1::World proto;
  proto.set_version(world.version.value());
  proto.set_generation(world.generation.value());
  proto.set_state(ToProto(world.state));
  proto.set_size(world.size);
  for (const core::Member& member : world.members) *proto.add_members() = ToProto(member);
  proto.set_reason(world.reason);
  proto.set_handover(world.handover);
  return proto;
}

}  // namespace dp::server
