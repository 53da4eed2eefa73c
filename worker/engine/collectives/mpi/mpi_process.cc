#include "worker/engine/collectives/mpi/mpi_process.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/mpi/poll_pace.h"

namespace dp::engine {
namespace {

constexpr int kTextBytes = 256;

// MPI would start a world of this process alone, and its peers another.
absl::Status CheckStartedByMpirun() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      "backend mpi: mpirun did not start this process; start the program by "
      "'mpirun -n RANKS PROGRAM', or use another backend");
}

absl::Status CheckThreads(int provided) {
  if (provided == MPI_THREAD_MULTIPLE) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "backend mpi: MPI does not take calls from several threads; initialize it by "
      "MPI_Init_thread with MPI_THREAD_MULTIPLE, or leave that to dp");
}

// `started`: whether the process must end MPI.
absl::Status Initialize(bool* started) {
  int initialized = 0, finalized = 0, provided = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized)
    return absl::FailedPreconditionError(
        "backend mpi: the program has called MPI_Finalize; join the group before");
  if (initialized) {
    MPI_Query_thread(&provided);
    return CheckThreads(provided);
  }
  if (absl::Status status = CheckStartedByMpirun(); !status.ok()) return status;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    return absl::FailedPreconditionError("backend mpi: MPI_Init_thread failed");
  *started = true;
  return CheckThreads(provided);
}

bool AllOnThisHost(MPI_Comm world, int size) {
  MPI_Comm host = MPI_COMM_NULL;
  int beside = 0;
  if (MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS)
    return false;
  MPI_Comm_size(host, &beside);
  MPI_Comm_free(&host);
  return beside == size;
}

}  // namespace

absl::StatusOr<MpiProcess*> MpiProcess::Start() {
  static const absl::StatusOr<MpiProcess*> process = StartOnce();
  return process;
}

// The calls before the constructor block until every process has made them. mpirun ends all if one
// cannot.
absl::StatusOr<MpiProcess*> MpiProcess::StartOnce() {
  bool started = false;
  DP_RETURN_IF_ERROR(Initialize(&started));
  MPI_Comm world = MPI_COMM_NULL;
  MpiPlace place;
  DP_RETURN_IF_ERROR(StatusOf(MPI_Comm_dup(MPI_COMM_WORLD, &world)));
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  MPI_Comm_rank(world, &place.rank);
  MPI_Comm_size(world, &place.size);
  place.one_host = AllOnThisHost(world, place.size);
  void* most = nullptr;
  int known = 0;
  MPI_Comm_get_attr(world, MPI_TAG_UB, &most, &known);
  constexpr int kLeastTags = 32767;  // that the standard promises
  static MpiProcess* process;
  process = new MpiProcess(world, place, known ? *static_cast<int*>(most) : kLeastTags);
  if (started) std::atexit([] { process->End(); });
  return process;
}

MpiProcess::MpiProcess(MPI_Comm world, const MpiPlace& place, int tags)
    : world_(world), place_(place), tags_(tags) {}

absl::Status MpiProcess::StatusOf(int result) {
  if (result == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  return absl::UnavailableError(absl::StrCat("MPI: ", text));
}

absl::StatusOr<int> MpiProcess::ReserveTags(int count) {
  MutexLock lock(mu_);
  if (count > tags_ - next_tag_)
    return absl::ResourceExhaustedError(
        absl::StrCat("backend mpi: this process has joined groups of so many ranks that MPI's ",
                     tags_, " tags are used up; join fewer groups in one process"));
  next_tag_ += count;
  return next_tag_ - count;
}

absl::StatusOr<std::string> MpiProcess::TextOfRank0(const std::string& text,
                                                    absl::Duration timeout) {
  // MPI may write to it after this has given up.
  auto* const bytes = new char[kTextBytes]();
  std::memcpy(bytes, text.data(), std::min(text.size(), size_t{kTextBytes - 1}));
  MPI_Request request = MPI_REQUEST_NULL;
  DP_RETURN_IF_ERROR(
      Call([&] { return MPI_Ibcast(bytes, kTextBytes, MPI_CHAR, 0, world_, &request); }));
  PollPace pace;
  const absl::Time deadline = Clock::Steady().Now() + timeout;
  for (int done = 0;;) {
    DP_RETURN_IF_ERROR(Call([&] { return MPI_Test(&request, &done, MPI_STATUS_IGNORE); }));
    if (done) break;
    if (Clock::Steady().Now() >= deadline) {
      absl::Status late = DidNotArrive("connect", {}, timeout);
      GiveUp(late);
      return late;
    }
    pace.Wait();
  }
  std::string of_rank_0 = bytes;
  delete[] bytes;
  return of_rank_0;
}

void MpiProcess::AddUser(MpiUser* user) {
  MutexLock lock(mu_);
  users_.insert(user);
}

void MpiProcess::RemoveUser(MpiUser* user) {
  MutexLock lock(mu_);
  users_.erase(user);
}

void MpiProcess::GiveUp(const absl::Status& why) {
  MutexLock lock(mu_);
  if (usable_.ok())
    usable_ = absl::FailedPreconditionError(absl::StrCat(
        "MPI cannot be used any more in this process, because of an earlier error: ", why.message(),
        "; start the processes again"));
}

void MpiProcess::NoteFailure() {
  MutexLock lock(mu_);
  failed_ = true;
}

// Without MPI_Finalize, mpirun takes the end of the process for a failure. It is one then.
void MpiProcess::End() {
  MutexLock lock(mu_);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!usable_.ok() || finalized) return;
  bool all_ended = true;
  for (MpiUser* user : users_) all_ended = user->EndUse() && all_ended;
  usable_ = absl::FailedPreconditionError("the process ends");
  if (all_ended && !failed_) MPI_Finalize();
}

absl::StatusOr<MpiPlace> StartMpi() {
  DP_ASSIGN_OR_RETURN(const MpiProcess* const process, MpiProcess::Start());
  return process->place();
}

absl::StatusOr<std::string> TextOfMpiRank0(const std::string& text, absl::Duration timeout) {
  DP_ASSIGN_OR_RETURN(MpiProcess* const process, MpiProcess::Start());
  return process->TextOfRank0(text, timeout);
}

}  // namespace dp::engine
