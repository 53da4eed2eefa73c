// A program of a user whose processes mpirun starts. The argument says what it does.
#include <dp/distributed.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

// Values whose sum depends on the order.
template <typename T>
std::vector<T> ValuesOf(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = T(static_cast<float>((i * 7919 + static_cast<size_t>(rank) * 104729) % 1009) / 64);
  return values;
}

// Whether a reduction over MPI has the bits of the other backends.
template <typename T>
bool HasSameBits(const std::vector<dp::ProcessGroup>& groups, dp::ReduceOp op, size_t count) {
  std::vector<T> by_mpi = ValuesOf<T>(dp::get_rank(), count);
  dp::all_reduce(by_mpi, op);
  for (const dp::ProcessGroup& group : groups) {
    std::vector<T> data = ValuesOf<T>(dp::get_rank(), count);
    dp::all_reduce(data, op, group);
    if (std::memcmp(data.data(), by_mpi.data(), count * sizeof(T)) == 0) continue;
    std::printf("%s differs in op %d of %zu\n", dp::get_backend(group).c_str(),
                static_cast<int>(op), count);
    return false;
  }
  return true;
}

template <typename T>
bool HasSameBits(const std::vector<dp::ProcessGroup>& groups) {
  bool same = true;
  for (const auto op : {dp::ReduceOp::kSum, dp::ReduceOp::kMin, dp::ReduceOp::kMax,
                        dp::ReduceOp::kProduct, dp::ReduceOp::kAvg}) {
    if (op == dp::ReduceOp::kAvg && std::is_integral_v<T>) continue;
    for (const size_t count : {1, 1000, 300001}) same = HasSameBits<T>(groups, op, count) && same;
  }
  return same;
}

void Compare() {
  std::vector<int> all;
  for (int r = 0; r < dp::get_world_size(); ++r) all.push_back(r);
  std::vector<dp::ProcessGroup> groups = {dp::new_group(all, "shm"), dp::new_group(all, "gloo")};
  const bool same = HasSameBits<float>(groups) & HasSameBits<double>(groups) &
                    HasSameBits<dp::Float16>(groups) & HasSameBits<dp::Bfloat16>(groups) &
                    HasSameBits<int32_t>(groups) & HasSameBits<int64_t>(groups) &
                    HasSameBits<uint8_t>(groups);
  dp::monitored_barrier();
  std::printf("rank %d of %d: %s\n", dp::get_rank(), dp::get_world_size(),
              same ? "same bits" : "other bits");
}

// A group of the last two ranks, in the other order.
void SumInPair() {
  const int last = dp::get_world_size() - 1;
  const std::vector<int> pair = {last, last - 1};
  const dp::ProcessGroup group = dp::new_group(pair);
  std::vector<int> data = {dp::get_rank()};
  if (group) dp::all_reduce(data, dp::ReduceOp::kSum, group);
  if (group.rank() == 0) std::printf("pair: %d by %s\n", data[0], dp::get_backend(group).c_str());
}

// Each rank sends its number to the next one.
void SendAround() {
  const int rank = dp::get_rank(), size = dp::get_world_size();
  std::vector<int> sent = {rank}, received = {-1};
  dp::Work sends = dp::isend(sent, (rank + 1) % size);
  dp::recv(received, (rank + size - 1) % size);
  sends.wait();
  std::printf("rank %d has %d\n", rank, received[0]);
}

// The last rank takes the maximum where the others sum. Then all meet elsewhere, since mpirun ends
// the processes once one has ended.
void Differ() {
  std::vector<int> all;
  for (int r = 0; r < dp::get_world_size(); ++r) all.push_back(r);
  const dp::ProcessGroup meeting = dp::new_group(all, "shm");
  const bool last = dp::get_rank() == dp::get_world_size() - 1;
  std::vector<float> data(4);
  try {
    dp::all_reduce(data, last ? dp::ReduceOp::kMax : dp::ReduceOp::kSum);
  } catch (const dp::DistError& error) {
    const bool mismatch = error.kind() == dp::ErrorKind::kMismatch;
    std::printf("%s: %s\n", mismatch ? "mismatch" : "another error", error.what());
    std::fflush(stdout);
  }
  dp::barrier(meeting);
}

void ReduceForEver() {
  std::vector<float> data(1000000);
  for (;;) dp::all_reduce(data);
}

}  // namespace

int main(int, char** argv) try {
  const std::string verb = argv[1];
  dp::init_process_group(
      {.backend = "MPI", .timeout = std::chrono::seconds(verb == "stop" ? 2 : 60)});
  if (verb == "compare") Compare();
  if (verb == "pair") SumInPair();
  if (verb == "send") SendAround();
  if (verb == "differ") Differ();
  if (verb == "again") {
    dp::destroy_process_group();
    dp::init_process_group({.backend = "mpi"});
    SumInPair();
  }
  const bool last = dp::get_rank() == dp::get_world_size() - 1;
  if (verb == "stop" && last) std::raise(SIGSTOP);
  if (verb == "leave" && last) return 0;
  if (verb == "leave" || verb == "stop") ReduceForEver();
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::printf("error: %s\n", error.what());
  std::fflush(stdout);
  return 1;
}
