// A program of a user whose processes mpirun starts. The argument says what it does.
#include <dp/distributed.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
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

std::vector<int> AllRanks() {
  std::vector<int> all;
  for (int r = 0; r < dp::get_world_size(); ++r) all.push_back(r);
  return all;
}

void Compare(const std::vector<std::string>& backends) {
  std::vector<dp::ProcessGroup> groups;
  for (const std::string& backend : backends) groups.push_back(dp::new_group(AllRanks(), backend));
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
  const dp::ProcessGroup meeting = dp::new_group(AllRanks(), "gloo");
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

// Prints the error of an operation once, then waits until all ranks have, since mpirun ends the
// processes once one has ended.
template <typename Operation>
void FailTogether(const Operation& operation) {
  try {
    operation();
  } catch (const dp::DistError& error) {
    std::printf("error: %s\n", error.what());
    std::fflush(stdout);
  }
  try {
    dp::monitored_barrier();
  } catch (const dp::DistError&) {  // rank 0, which serves the store, was faster
  }
}

// The last rank gives up in the middle of an operation.
void SumUntilOneAborts() {
  std::vector<float> data(1000000);
  for (;;) {
    dp::Work work = dp::all_reduce_async(data);
    if (dp::get_rank() == dp::get_world_size() - 1) dp::default_group().abort("gives up");
    work.wait();
  }
}

// The contents that operations have left in this rank's memory, as one number (FNV-1a).
class Digest {
 public:
  template <typename T>
  void Add(const std::vector<T>& data) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
    for (size_t i = 0; i < data.size() * sizeof(T); ++i)
      hash_ = (hash_ ^ bytes[i]) * 1099511628211u;
  }
  void Print(const std::string& operation) const {
    std::printf("rank %d %s %016llx\n", dp::get_rank(), operation.c_str(), hash_);
  }

 private:
  unsigned long long hash_ = 14695981039346656037u;
};

// Every operation of one type on arrays that are short, of one message and of several. `last` is
// the root, so that it is on another host than rank 0 if there is one.
template <typename T>
void RunEveryOperation(const std::string& type) {
  const int rank = dp::get_rank(), size = dp::get_world_size(), last = size - 1;
  const auto ranks = static_cast<size_t>(size);
  Digest reduced, moved, dealt, sent;
  for (const size_t count : {1, 1000, 300001}) {
    const std::vector<T> own = ValuesOf<T>(rank, count), all = ValuesOf<T>(rank, count * ranks);
    std::vector<T> output(count), outputs(count * ranks), nothing;
    for (const auto op : {dp::ReduceOp::kSum, dp::ReduceOp::kMin, dp::ReduceOp::kMax,
                          dp::ReduceOp::kProduct, dp::ReduceOp::kAvg}) {
      if (op == dp::ReduceOp::kAvg && std::is_integral_v<T>) continue;
      output = own;
      dp::all_reduce(output, op);
      reduced.Add(output);
      output = own;
      dp::reduce(output, last, op);
      reduced.Add(output);
      dp::reduce_scatter(output, all, op);
      reduced.Add(output);
    }
    output = own;
    dp::broadcast(output, last);
    moved.Add(output);
    dp::all_gather(outputs, own);
    moved.Add(outputs);
    dp::gather(rank == last ? outputs : nothing, own, last);
    moved.Add(outputs);
    dp::scatter(output, rank == last ? all : nothing, last);
    moved.Add(output);
    dp::all_to_all(outputs, all);
    dealt.Add(outputs);
    // Rank r gives s + 1 elements to rank s.
    std::vector<size_t> given, taken(ranks, static_cast<size_t>(rank) + 1);
    for (size_t r = 1; r <= ranks; ++r) given.push_back(r);
    const std::vector<T> parts = ValuesOf<T>(rank, ranks * (ranks + 1) / 2);
    std::vector<T> got(ranks * taken[0]);
    dp::all_to_all(got, parts, taken, given);
    dealt.Add(got);
    dp::Work sends = dp::isend(own, (rank + 1) % size, 7);
    dp::recv(output, (rank + size - 1) % size, 7);
    sends.wait();
    sent.Add(output);
  }
  reduced.Print(type + " reduced");
  moved.Print(type + " moved");
  dealt.Print(type + " dealt");
  sent.Print(type + " sent");
}

void RunEveryOperation() {
  RunEveryOperation<float>("float");
  RunEveryOperation<double>("double");
  RunEveryOperation<dp::Float16>("float16");
  RunEveryOperation<dp::Bfloat16>("bfloat16");
  RunEveryOperation<int32_t>("int32");
  RunEveryOperation<int64_t>("int64");
  RunEveryOperation<uint8_t>("uint8");
  dp::barrier();
  dp::monitored_barrier();
}

void ReduceForEver() {
  std::vector<float> data(1000000);
  for (;;) dp::all_reduce(data);
}

// Where ranks 2 and 3 cannot reach the store, they give up first.
int TimeoutS(const std::string& verb) {
  if (verb == "stop") return 2;
  return verb == "meet" && std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")) >= 2 ? 5 : 60;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string verb = argv[1];
  dp::init_process_group({.backend = "MPI", .timeout = std::chrono::seconds(TimeoutS(verb))});
  if (verb == "compare") Compare({argv + 2, argv + argc});
  if (verb == "digest") RunEveryOperation();
  if (verb == "pair") SumInPair();
  if (verb == "send") SendAround();
  if (verb == "differ") Differ();
  if (verb == "unsent") FailTogether(SendAround);
  if (verb == "abort") FailTogether(SumUntilOneAborts);
  if (verb == "unsent" || verb == "abort") return 0;
  if (verb == "again") {
    dp::destroy_process_group();
    dp::init_process_group({.backend = "mpi"});
    SumInPair();
  }
  const bool last = dp::get_rank() == dp::get_world_size() - 1;
  if (verb == "stop" && last) std::raise(SIGSTOP);
  if (verb == "kill" && last) std::raise(SIGKILL);
  if (verb == "leave" && last) return 0;
  if (verb == "leave" || verb == "stop" || verb == "kill") ReduceForEver();
  dp::destroy_process_group();
} catch (const dp::DistError& error) {
  std::printf("error: %s\n", error.what());
  std::fflush(stdout);
  return 1;
}
