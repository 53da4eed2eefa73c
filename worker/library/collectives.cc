#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "absl/time/time.h"
#include "dp/distributed.h"
#include "worker/library/in_engine.h"
#include "worker/library/joined_group.h"
#include "worker/library/pending_work.h"

namespace dp::distributed {

using library::CheckArrays;
using library::CheckCount;
using library::CheckPeer;
using library::InEngine;
using library::JoinedGroup;
using library::MemberOf;
using library::PendingWork;
using library::StartIn;

namespace {

PendingWork& PendingIn(const std::unique_ptr<PendingWork>& pending) {
  if (pending != nullptr) return *pending;
  throw DistError(ErrorKind::kWrongState,
                  "the Work was moved from and has no operation; ask the Work that it moved to");
}

}  // namespace

Work::Work(std::unique_ptr<PendingWork> pending) : pending_(std::move(pending)) {}
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;

void Work::wait() { PendingIn(pending_).Wait(); }
bool Work::is_completed() const { return PendingIn(pending_).done(); }

Work all_reduce_async(MutableElements data, ReduceOp op, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const engine::ReduceOp reduction = InEngine(op, data.type, member);
  return StartIn(member, "all_reduce", {data},
                 [to = InEngine(data), reduction](engine::Group& engine) {
                   return engine.AllReduce(to, reduction);
                 });
}

Work reduce_async(MutableElements data, int dst, ReduceOp op, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const engine::ReduceOp reduction = InEngine(op, data.type, member);
  return StartIn(member, "reduce", {data},
                 [to = InEngine(data), reduction, root = member.RankOf(dst)](
                     engine::Group& engine) { return engine.Reduce(to, reduction, root); });
}

Work reduce_scatter_async(MutableElements output, Elements input, ReduceOp op,
                          const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const engine::ReduceOp reduction = InEngine(op, input.type, member);
  CheckArrays(member, "reduce_scatter", output, input);
  CheckCount(member, "reduce_scatter", "input", input.count, output.count, member.size());
  return StartIn(member, "reduce_scatter", {output, input},
                 [to = InEngine(output), from = InEngine(input), reduction](engine::Group& engine) {
                   return engine.ReduceScatter(from, to, reduction);
                 });
}

Work broadcast_async(MutableElements data, int src, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int root = member.RankOf(src);
  return StartIn(member, "broadcast", {data}, [to = InEngine(data), root](engine::Group& engine) {
    return engine.Broadcast(to, root);
  });
}

Work all_gather_async(MutableElements output, Elements input, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  CheckArrays(member, "all_gather", output, input);
  CheckCount(member, "all_gather", "output", output.count, input.count, member.size());
  return StartIn(member, "all_gather", {output, input},
                 [from = InEngine(input), to = InEngine(output).bytes](engine::Group& engine) {
                   return engine.AllGather(from, to);
                 });
}

Work send_async(Elements data, int dst, int tag, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int to = CheckPeer(member, "send to", dst, tag);
  return StartIn(member, "send", {data}, [from = InEngine(data), to, tag](engine::Group& engine) {
    return engine.Send(from, to, tag);
  });
}

Work recv_async(MutableElements data, int src, int tag, const ProcessGroup& group) {
  JoinedGroup& member = MemberOf(group);
  const int from = CheckPeer(member, "recv from", src, tag);
  return StartIn(member, "recv", {data}, [to = InEngine(data), from, tag](engine::Group& engine) {
    return engine.Receive(to, from, tag);
  });
}

Work isend(Elements data, int dst, int tag, const ProcessGroup& group) {
  return send_async(data, dst, tag, group);
}

Work irecv(MutableElements data, int src, int tag, const ProcessGroup& group) {
  return recv_async(data, src, tag, group);
}

std::span<std::byte> allocate_bytes(size_t bytes, const ProcessGroup& group) {
  const absl::Span<uint8_t> memory = MemberOf(group).Allocate(bytes);
  return {reinterpret_cast<std::byte*>(memory.data()), memory.size()};
}

Work barrier_async(const ProcessGroup& group) {
  return StartIn(MemberOf(group), [](engine::Group& engine) { return engine.Barrier(); });
}

void all_reduce(MutableElements data, ReduceOp op, const ProcessGroup& group) {
  all_reduce_async(data, op, group).wait();
}

void reduce(MutableElements data, int dst, ReduceOp op, const ProcessGroup& group) {
  reduce_async(data, dst, op, group).wait();
}

void reduce_scatter(MutableElements output, Elements input, ReduceOp op,
                    const ProcessGroup& group) {
  reduce_scatter_async(output, input, op, group).wait();
}

void broadcast(MutableElements data, int src, const ProcessGroup& group) {
  broadcast_async(data, src, group).wait();
}

void all_gather(MutableElements output, Elements input, const ProcessGroup& group) {
  all_gather_async(output, input, group).wait();
}

void send(Elements data, int dst, int tag, const ProcessGroup& group) {
  send_async(data, dst, tag, group).wait();
}

void recv(MutableElements data, int src, int tag, const ProcessGroup& group) {
  recv_async(data, src, tag, group).wait();
}

void barrier(const ProcessGroup& group) { barrier_async(group).wait(); }

void monitored_barrier(const ProcessGroup& group,
                       std::optional<std::chrono::milliseconds> timeout) {
  JoinedGroup& member = MemberOf(group);
  member.MonitoredBarrier(timeout ? absl::FromChrono(*timeout) : member.options().timeout);
}

}  // namespace dp::distributed
