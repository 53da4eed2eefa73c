#include "worker/library/joined_group.h"

#include <algorithm>
#include <exception>
#include <new>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "store/prefix_store.h"
#include "store/wire/deadline.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/store_arrival.h"
#include "worker/library/agreement/backend_agreement.h"
#include "worker/library/agreement/group_agreement.h"
#include "worker/library/agreement/heeding_store.h"
#include "worker/library/agreement/unanimity.h"
#include "worker/library/backend.h"
#include "worker/library/dist_error.h"

namespace dp::library {
namespace {

using distributed::DistError;
using distributed::ErrorKind;

constexpr absl::string_view kJoinRemedy =
    "; check that every rank runs, with the same init method, backend, world size and group name";

// How long a rank waits for peers to get a verdict that all ranks get.
constexpr absl::Duration kSameVerdict = absl::Seconds(5);

// The keys of Unanimity, which says whether all ranks join.
constexpr char kJoined[] = "joined";

// A timeout names the ranks; every other error of joining is the store's or the caller's.
[[noreturn]] void ThrowJoinError(const absl::Status& status, const std::string& context) {
  if (!absl::IsDeadlineExceeded(status)) throw DistErrorOf(status, ErrorSource::kStore, context);
  throw DistErrorOf(engine::WithMore(status, kJoinRemedy), ErrorSource::kStore, context);
}

// Rank 0 may serve the store, so it stays until the others have read the verdict.
void AwaitSameVerdict(Store& keys, int size) {
  (void)keys.Barrier("no_group", size, kSameVerdict);  // a courtesy
}

[[noreturn]] void ThrowDifference(const absl::Status& differ, Store& keys, int size,
                                  const std::string& context) {
  AwaitSameVerdict(keys, size);
  throw DistError(ErrorKind::kMismatch,
                  absl::StrCat(context, ": connect: ", std::string(differ.message()),
                               "; give every rank the same backend"));
}

// Says whether a rank has another backend than others.
std::function<absl::Status()> DifferenceIn(const std::shared_ptr<OpenStore>& keys, int rank) {
  return [joined = OpenPrefixStore(kJoined, keys), rank]() -> absl::Status {
    const absl::StatusOr<std::string> objection = Unanimity(*joined->store, rank, {}).Objection();
    // A store that fails shows in what the rank waits for.
    return objection.ok() ? BackendsDiffer(*objection) : absl::OkStatus();
  };
}

struct ConnectKeys {
  std::shared_ptr<OpenStore> open;
  HeedingStore* heeding = nullptr;  // in `open`
};

// The keys for connecting, whose waits end if the ranks' backends differ.
ConnectKeys HeedingDifferences(const std::shared_ptr<OpenStore>& keys, int rank) {
  auto heeding = std::make_unique<HeedingStore>(*keys->store, DifferenceIn(keys, rank));
  HeedingStore* const address = heeding.get();
  return {std::make_shared<OpenStore>(OpenStore{keys, std::move(heeding), keys->own_address}),
          address};
}

// Ends the group with its last holder, in this process alone. It uses `keys` until then.
std::shared_ptr<engine::Group> OfThisProcess(std::unique_ptr<engine::Group> group,
                                             std::shared_ptr<OpenStore> keys) {
  return {group.release(),
          [keys = std::move(keys), made_at = ForkCount()](engine::Group* last) mutable {
            if (ForkCount() != made_at) return LeaveToParent(std::move(keys));
            delete last;
          }};
}

std::string BarrierPrefix(int64_t number) { return absl::StrCat("monitored_barrier/", number); }

std::string ContextOf(const JoinedGroup::Options& options) {
  return absl::StrCat("group '", options.name, "', rank ", options.rank);
}

// The keys of this run: a group of the same name may have met in the store before.
std::shared_ptr<OpenStore> OwnKeys(const std::shared_ptr<OpenStore>& store,
                                   const JoinedGroup::Options& options) {
  const std::string prefix = absl::StrCat("dp/", options.name);
  const int64_t run = OrThrow(store->store->Add(absl::StrCat(prefix, "/runs/", options.rank), 1),
                              ErrorSource::kStore, absl::StrCat("group '", options.name, "'"));
  return OpenPrefixStore(absl::StrCat(prefix, "/run_", run), store);
}

std::vector<int> RanksOf(const JoinedGroup::Options& options) {
  std::vector<int> ranks(static_cast<size_t>(options.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::shared_ptr<JoinedGroup> JoinedGroup::Join(const std::shared_ptr<OpenStore>& store,
                                               Options options) {
  const absl::Duration timeout = options.timeout;
  std::shared_ptr<OpenStore> keys = OwnKeys(store, options);
  PrefixStore joined(absl::StrCat(kJoined, "/"), *keys->store);
  const absl::Status agreed =
      options.size == 1 ? absl::OkStatus()
                        : AgreeOnBackend(*keys->store, joined, options.rank, options.backend);
  const std::string context = ContextOf(options);
  if (absl::IsInvalidArgument(agreed)) ThrowDifference(agreed, *keys->store, options.size, context);
  OrThrow(agreed, ErrorSource::kStore, context);
  return std::make_shared<JoinedGroup>(std::move(keys), std::move(options), timeout);
}

JoinedGroup::JoinedGroup(std::shared_ptr<OpenStore> keys, Options options,
                         absl::Duration connect_timeout)
    : options_(std::move(options)), store_(std::move(keys)) {
  const wire::Deadline deadline(connect_timeout);
  PrefixStore joined_keys(absl::StrCat(kJoined, "/"), *store_->store);
  const auto object = [&](absl::string_view why) {  // the reason counts, not whether peers learn it
    (void)Unanimity(joined_keys, options_.rank, {})
        .Object(absl::StrCat("rank ", options_.rank, " could not join: ", why));
  };
  const ConnectKeys connect = HeedingDifferences(store_, options_.rank);
  absl::StatusOr<OpenedGroup> opened;
  try {
    opened =
        OpenGroup(options_.backend, connect.open,
                  {options_.rank, options_.size, options_.timeout, connect_timeout, options_.nccl},
                  VariablesOfProcess());
  } catch (const std::exception& thrown) {  // by a backend of the program
    object(thrown.what());
    const absl::Status differ = DifferenceIn(store_, options_.rank)();
    if (!differ.ok()) ThrowDifference(differ, *store_->store, options_.size, Context());
    throw;
  }
  if (!opened.ok()) {
    object(opened.status().message());
    const absl::Status differ = DifferenceIn(store_, options_.rank)();
    if (!differ.ok()) ThrowDifference(differ, *store_->store, options_.size, Context());
    if (absl::IsFailedPrecondition(opened.status()))
      AwaitSameVerdict(*store_->store, options_.size);
    ThrowJoinError(opened.status(), Context());
  }
  connect.heeding->Stop();
  // Backends let a rank go on once its own connections stand.
  const absl::StatusOr<std::string> objection =
      Unanimity(joined_keys, options_.rank, RanksOf(options_))
          .Consent("connect", deadline.left(), options_.timeout);
  if (!objection.ok()) ThrowJoinError(objection.status(), Context());
  const absl::Status differ = BackendsDiffer(*objection);
  if (!differ.ok()) ThrowDifference(differ, *store_->store, options_.size, Context());
  if (!objection->empty()) ThrowJoinError(absl::UnavailableError(*objection), Context());
  backend_ = opened->backend;
  nccl_ = opened->nccl;
  memory_ =
      std::make_unique<GroupMemory>(nccl_ ? std::optional(nccl_->gpu()) : std::nullopt, Context());
  MutexLock lock(mu_);
  // Over NCCL the group uses the store to its end.
  group_ = OfThisProcess(std::move(opened->group), nccl_ ? connect.open : nullptr);
}

JoinedGroup::~JoinedGroup() {
  if (!in_fork()) return;
  LeaveToParent(std::move(store_));
  LeaveToParent(std::move(gpu_memory_));
}

std::string JoinedGroup::Context() const { return ContextOf(options_); }

std::unique_ptr<engine::Work> JoinedGroup::Start(const Begin& begin) {
  engine::Group& group = here();
  if (nccl_) OrThrow(nccl_->api->UseDevice(nccl_->device), ErrorSource::kOperation, Context());
  return begin(group);
}

engine::Group& JoinedGroup::here() const {
  CheckHere();
  return *group();
}

absl::Span<uint8_t> JoinedGroup::Allocate(size_t bytes) {
  CheckHere();
  try {
    if (!nccl_) return group()->Allocate(bytes);
    gpu_memory_->push_back(
        OrThrow(GpuMemory::Allocate(nccl_->gpu(), bytes), ErrorSource::kOperation, Context()));
    const absl::Span<uint8_t> memory = gpu_memory_->back().bytes();
    memory_->Zero(memory);
    uint8_t first = 0;
    memory_->Read(memory.subspan(0, 1), &first);  // waits, since the program may have more streams
    return memory;
  } catch (const std::bad_alloc&) {
    throw DistError(ErrorKind::kLimit,
                    absl::StrCat(Context(), ": no memory for ", bytes,
                                 " bytes; allocate less, or raise the memory limit of the ranks"));
  }
}

std::shared_ptr<const void> JoinedGroup::HoldMemory() const {
  return std::make_shared<std::pair<std::shared_ptr<engine::Group>, std::shared_ptr<GpuMemories>>>(
      group(), gpu_memory_);
}

void JoinedGroup::CheckProcess() const {
  if (in_fork()) ThrowInFork(Context());
}

void JoinedGroup::CheckHere() const {
  CheckProcess();
  if (!left()) return;
  throw DistError(ErrorKind::kWrongState,
                  absl::StrCat(Context(), " has left it by destroy_process_group; join again"));
}

std::shared_ptr<engine::Group> JoinedGroup::group() const {
  MutexLock lock(mu_);
  return group_;
}

std::optional<std::string> JoinedGroup::why_aborted() const {
  MutexLock lock(mu_);
  return why_aborted_;
}

int JoinedGroup::RankOf(int global_rank) const {
  const std::vector<int>& ranks = options_.global_ranks;
  const auto found = std::find(ranks.begin(), ranks.end(), global_rank);
  if (!ranks.empty() && found != ranks.end()) return static_cast<int>(found - ranks.begin());
  if (ranks.empty() && global_rank >= 0 && global_rank < options_.size) return global_rank;
  throw DistError(
      ErrorKind::kInvalidArgument,
      absl::StrCat(Context(), ": rank ", global_rank, " is not in the group; give ",
                   ranks.empty() ? absl::StrCat("0 to ", options_.size - 1)
                                 : absl::StrCat("one of ", absl::StrJoin(ranks, ", "))));
}

void JoinedGroup::MonitoredBarrier(absl::Duration timeout) {
  CheckHere();
  CheckTimeout(timeout, absl::StrCat(Context(), ": monitored_barrier"));
  const wire::Deadline deadline(timeout);
  const int64_t number = ++monitored_barriers_;
  std::vector<int> missing;
  const auto stopped = [&] { return deadline.passed() || why_aborted().has_value(); };
  const auto cards = engine::AwaitRanks(*store_->store, BarrierPrefix(number), options_.rank,
                                        options_.size, "", stopped, &missing);
  if (absl::IsAborted(cards.status())) {
    const std::optional<std::string> why = why_aborted();
    const absl::Status status =
        why ? engine::AbortedBecause("monitored_barrier", absl::AbortedError(*why))
            : engine::DidNotArrive("monitored_barrier", missing, timeout);
    OrThrow(status, ErrorSource::kOperation, Context());
  }
  OrThrow(cards.status(), ErrorSource::kStore, Context());
  // Every rank has begun this barrier, and has therefore read all keys of the one before.
  const std::string old = absl::StrCat(BarrierPrefix(number - 1), "/", options_.rank, "/arrived");
  OrThrow(store_->store->Delete(old).status(), ErrorSource::kStore, Context());
}

std::shared_ptr<JoinedGroup> JoinedGroup::MakeGroup(const std::vector<int>& ranks,
                                                    absl::string_view backend,
                                                    absl::Duration timeout) {
  CheckHere();
  CheckTimeout(timeout, absl::StrCat(Context(), ": new_group"));
  CheckRanks(ranks);
  Options options = options_;
  options.timeout = timeout;
  options.global_ranks = ranks;
  if (!backend.empty())
    options.backend = OrThrow(BackendNamed(backend, options.nccl), ErrorSource::kCaller);
  options.name = absl::StrCat("group_", ++groups_made_);
  const wire::Deadline deadline(timeout);
  const std::shared_ptr<OpenStore> keys = OpenPrefixStore(options.name, store_);
  PrefixStore agreement("agreement/", *keys->store);
  const WantedGroup wanted{
      options_.rank, ranks,
      absl::StrCat("gives ", engine::RankNames(ranks), " and backend ", options.backend)};
  OrThrow(AgreeOnGroup(agreement, wanted, absl::StrCat("new_group ", groups_made_), timeout),
          ErrorSource::kOperation, Context());
  const auto self = std::find(ranks.begin(), ranks.end(), options_.rank);
  if (self == ranks.end()) return nullptr;
  options.rank = static_cast<int>(self - ranks.begin());
  options.size = static_cast<int>(ranks.size());
  return std::make_shared<JoinedGroup>(keys, std::move(options), deadline.left());
}

void JoinedGroup::CheckRanks(const std::vector<int>& ranks) const {
  const std::set<int> different(ranks.begin(), ranks.end());
  if (ranks.empty() || different.size() != ranks.size())
    throw DistError(ErrorKind::kInvalidArgument,
                    absl::StrCat(Context(), ": new_group of ",
                                 ranks.empty() ? "no rank" : engine::RankNames(ranks),
                                 "; give one rank at least, and each once"));
  for (const int rank : ranks) RankOf(rank);
}

void JoinedGroup::Abort(absl::string_view why) {
  {
    MutexLock lock(mu_);
    if (!why_aborted_) why_aborted_ = std::string(why);
  }
  if (in_fork()) return;
  if (const auto here = group()) here->Abort(absl::AbortedError(why));
}

void JoinedGroup::Leave() {
  if (in_fork()) return;
  const std::shared_ptr<engine::Group> here = group();
  if (here == nullptr) return;
  (void)here->Leave()->Wait();  // a group that has failed does not wait, and nobody needs it
  {
    MutexLock lock(mu_);
    group_.reset();
  }
  gpu_memory_ = std::make_shared<GpuMemories>();
  store_.reset();
}

void CheckTimeout(absl::Duration timeout, absl::string_view call) {
  if (timeout > absl::ZeroDuration()) return;
  throw DistError(ErrorKind::kInvalidArgument,
                  absl::StrCat(call, ": timeout is ", absl::ToInt64Milliseconds(timeout),
                               " ms; give more than 0"));
}

JoinedGroup& MemberOf(const distributed::ProcessGroup& group) {
  if (group) return *group.joined();
  throw DistError(ErrorKind::kWrongState,
                  "the group is empty: this rank is no member of it; call its operations only on "
                  "the ranks that new_group was given");
}

distributed::ProcessGroup GroupOrDefault(const std::optional<distributed::ProcessGroup>& given) {
  if (!given) return distributed::default_group();
  if (*given) return *given;
  throw DistError(ErrorKind::kWrongState,
                  "process_group is an empty handle: this rank is no member of the group; leave "
                  "the option out for the default group, or use the group on its members only");
}

}  // namespace dp::library
