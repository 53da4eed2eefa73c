#include "worker/trainer/checkpoint/final_weights.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "base/random.h"
#include "base/status.h"
#include "client/parameters.h"
#include "client/retry_loop.h"
#include "client/weights/kept_weights.h"
#include "dp/v1/checkpoints.grpc.pb.h"
#include "proto/convert/time.h"
#include "proto/weights/safetensors.h"
#include "worker/trainer/checkpoint/checkpoint_files.h"
#include "worker/trainer/checkpoint/durable_file.h"
#include "worker/trainer/checkpoint/own_files.h"
#include "worker/trainer/checkpoint/sha256.h"
#include "worker/trainer/checkpoint/state_dict.h"
#include "worker/trainer/fault_point.h"

namespace dp::trainer {
namespace {

namespace fs = std::filesystem;

// A finished training is worth a long wait.
constexpr absl::Duration kRegisterWeightsWithin = absl::Hours(24);

// Whether a file begins as one in the safetensors format.
bool LooksLikeWeights(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  std::array<unsigned char, 9> begin{};
  if (!file.valid() || fstat(file.get(), &info) != 0 ||
      read(file.get(), begin.data(), begin.size()) != std::ssize(begin)) {
    return false;
  }
  uint64_t header = 0;
  for (int byte = 0; byte < 8; ++byte) header |= uint64_t{begin[byte]} << (8 * byte);
  return begin[8] == '{' && header < static_cast<uint64_t>(info.st_size);
}

bool Rename(const std::string& from, const std::string& to, unsigned how) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), how) == 0;
}

// 0 if there is no file.
ino_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// Gives the file a time that no other file has, and returns it as the file system keeps it. Kernels
// count the time of files in steps of some milliseconds, so the digits below are random. Renaming
// does not change the time. Best effort: a time that cannot be set proves less. nullopt: not known.
std::optional<absl::Time> StampFile(const std::string& path, absl::Time now) {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const auto below = absl::Nanoseconds(static_cast<int64_t>(EntropySeed() % 1'000'000));
  const timespec time = absl::ToTimespec(absl::FromUnixMillis(absl::ToUnixMillis(now)) + below);
  const timespec times[] = {time, time};  // of access and of modification
  if (futimens(file.get(), times) == 0) (void)fsync(file.get());
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return std::nullopt;
  return absl::TimeFromTimespec(info.st_mtim);
}

// Moves a file to its place, and can undo that.
class Placement {
 public:
  Placement(std::string temporary, std::string path)
      : temporary_(std::move(temporary)), path_(std::move(path)), inode_(InodeOf(temporary_)) {}

  // Swaps the two files where the file system can: the previous one then lies at the temporary
  // path.
  absl::Status Take() {
    first_ = Rename(temporary_, path_, RENAME_NOREPLACE);
    exchanged_ = !first_ && Rename(temporary_, path_, RENAME_EXCHANGE);
    return first_ || exchanged_ ? SyncDirectory(fs::absolute(path_).parent_path())
                                : PutInPlace(temporary_, path_);
  }
  void Keep() const {
    if (exchanged_) unlink(temporary_.c_str());
  }
  // If a later generation has put its own file there since, that file stays.
  void GiveBack() const {
    const bool mine = InodeOf(path_) == inode_;
    if (mine && first_) unlink(path_.c_str());
    if (mine && exchanged_) (void)Rename(temporary_, path_, RENAME_EXCHANGE);
    if (exchanged_) unlink(temporary_.c_str());
  }

 private:
  const std::string temporary_, path_;
  const ino_t inode_;
  bool first_ = false;  // the path was free
  bool exchanged_ = false;
};

}  // namespace

absl::Status CheckPlaceOfWeights(const std::string& path, int64_t bytes) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (!error && size > 0 && !LooksLikeWeights(path)) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is there, and is no file of weights; remove it, or name another"));
  }
  const fs::space_info room = fs::space(fs::absolute(path).parent_path(), error);
  if (error || room.available >= static_cast<uint64_t>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the weights take ", bytes, " bytes, and ",
                                                   room.available, " are free on the disk of ",
                                                   path, "; make room"));
}

absl::StatusOr<std::string> EncodeWeights(const RankModel& model, int64_t steps,
                                          const SafetensorsMetadata& description) {
  DP_ASSIGN_OR_RETURN(const std::vector<float> values,
                      engine::ReadArray(*model.device, model.result()));
  std::vector<NamedCount> counts;  // PyTorch counts the steps for each batch norm
  for (const model::CheckedLayer& layer : model.layers) {
    if (!std::holds_alternative<model::BatchNorm>(layer.kind)) continue;
    counts.push_back({layer.name + ".num_batches_tracked", steps});
  }
  return EncodeSafetensors(StateDict(model.layout, values), counts, description);
}

absl::Status PlaceWeights(const WeightsPlace& place, const std::string& encoded,
                          const Environment& environment, client::Connection& connection,
                          const Clock& clock, client::Pause& pause) {
  const std::string& path = place.path;
  const std::string job = JobLabel(environment.job, place.submitted_at);
  // The suffix differs from a later generation's: this generation may be over without knowing it.
  const Generation generation = environment.generation;
  DP_ASSIGN_OR_RETURN(
      const std::string temporary,
      WriteBeside(path, encoded,
                  WeightsBeside{generation, WeightsBeside::Phase::kBefore}.Suffix(job)));
  ReachFaultPoint("publish");
  v1::RegisterWeightsRequest request;
  request.set_job(environment.job.value());
  request.set_generation(environment.generation.value());
  request.set_rank(environment.rank);
  request.mutable_weights()->set_path(path);
  request.mutable_weights()->set_sha256(Sha256Hex(encoded));
  request.mutable_weights()->set_bytes(static_cast<int64_t>(encoded.size()));
  if (const auto modified_at = StampFile(temporary, clock.Now())) {
    *request.mutable_weights()->mutable_modified_at() = ToProto(*modified_at);
  }
  const auto put_on_record = [&] {
    return client::RetryLoop(
               client::RetryPolicy({.deadline = kRegisterWeightsWithin}, EntropySeed()), clock,
               pause,
               [&](absl::Duration in) {
                 return connection.Call(&v1::Checkpoints::Stub::RegisterWeights, request, in);
               })
        .status();
  };
  const absl::Status registered = put_on_record();
  if (!registered.ok()) {
    unlink(temporary.c_str());
    return registered;
  }
  ReachFaultPoint("place");
  // From here on the file beside the place may be the one that was there before.
  const std::string placing =
      path + WeightsBeside{generation, WeightsBeside::Phase::kPlacing}.Suffix(job);
  DP_RETURN_IF_ERROR(PutInPlace(temporary, placing));
  Placement placement(placing, path);
  DP_RETURN_IF_ERROR(placement.Take());
  // A rank that was suspended here may have replaced a later generation's file: ask again.
  const absl::Status still = put_on_record();
  if (still.ok()) placement.Keep();
  const bool over = absl::IsFailedPrecondition(still) || absl::IsNotFound(still);
  if (over) placement.GiveBack();
  return still;  // without an answer, both files stay
}

absl::Status PublishWeights(const std::string& encoded, int64_t steps,
                            const Environment& environment, client::Connection& connection,
                            const Clock& clock, client::Pause& pause) {
  client::Parameters parameters(connection, pause, clock);
  return client::PushWeights(parameters, {.job = environment.job.value()}, encoded,
                             {.step = steps,
                              .generation = environment.generation.value(),
                              .rank = environment.rank})
      .status();
}

}  // namespace dp::trainer
