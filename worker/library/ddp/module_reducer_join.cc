#include <numeric>

#include "absl/strings/str_cat.h"
#include "worker/library/ddp/module_reducer.h"
#include "worker/library/dist_error.h"

// Uneven inputs. Ranks tell each other before each forward whether they have a batch. Those without
// one take part in the exchanges of the others.

namespace dp::library {

using distributed::DistError;
using distributed::ErrorKind;

void ModuleReducer::Join(const std::function<void()>& train,
                         const distributed::JoinOptions& options) {
  CheckUsable();
  CheckGiven(train != nullptr, "join");
  if (!options.divide_by_initial_world_size)
    (void)member().memory().math();  // rather now than late
  if (joining_) {
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat(member().Context(), ": join within join; end the first one"));
  }
  struct Joining {
    explicit Joining(ModuleReducer& reducer_in, const distributed::JoinOptions& options_in)
        : reducer(reducer_in) {
      reducer.joining_ = options_in;
      reducer.uneven_root_.reset();
    }
    ~Joining() {
      reducer.joining_.reset();
      reducer.round_ = RoundOfAll(reducer.group_.size());
    }
    ModuleReducer& reducer;
  } joining(*this, options);
  CallProgram(absl::StrCat(member().Context(), ": the function of join"), train);
  CheckFinished("join");
  Shadow();
  if (uneven_root_) TakeReplicaOf(*uneven_root_);
}

Round ModuleReducer::Announce(Presence presence) {
  const std::vector<uint8_t> mine = {static_cast<uint8_t>(presence)};
  std::vector<uint8_t> all(static_cast<size_t>(group_.size()));
  distributed::all_gather(all, mine, group_);
  std::vector<Presence> ranks;
  for (const uint8_t rank : all) ranks.push_back(static_cast<Presence>(rank));
  const Round round = OrThrow(RoundOf(ranks), ErrorSource::kOperation, member().Context());
  if (round.done.empty() || round.training.empty()) return round;
  if (joining_->throw_on_early_termination) {
    throw DistError(ErrorKind::kWrongState,
                    absl::StrCat(member().Context(), ": ", RanksHave(round.done),
                                 " no batch left, and others have; give every rank as many, or "
                                 "unset throw_on_early_termination"));
  }
  uneven_root_ = round.root();
  return round;
}

void ModuleReducer::Shadow() {
  std::vector<size_t> all(parameters_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const std::vector<uint8_t> unused(parameters_.size());
  while (true) {
    round_ = Announce(Presence::kDone);
    if (round_.training.empty()) return;
    if (!round_.averages) continue;
    PrepareForward(round_);
    member().memory().Zero(memory_);
    for (const size_t parameter : all) CompletePlace(layout_.places[parameter]);
    Exchange([this] { EndBuckets(); });
    ShareUse(unused);
  }
}

}  // namespace dp::library
