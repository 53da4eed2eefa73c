#include "tests/sim/process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dp::sim {
namespace {

constexpr absl::Duration kDetectWithin = absl::Seconds(10);
// How long a trainer waits for its peers to join, or to give their addresses.
constexpr absl::Duration kMeetWithin = absl::Minutes(1);
// A rank rides out any absence of the coordinator that these tests make.
const client::RetryOptions kPatient = {.deadline = absl::Minutes(2)};

std::string Name(const core::RankKey& key) {
  return absl::StrCat("rank ", key.job.ToString(), ".", key.generation.ToString(), "/", key.rank);
}

}  // namespace

void ProcessTable::Began(std::shared_ptr<Process> process) {
  const core::RankKey key = process->key();
  const auto [begin, end] = processes_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    env_.Expect(!it->second->alive(), absl::StrCat(Name(key), " has two live processes"));
  }
  processes_.emplace(key, std::move(process));
}

bool ProcessTable::PeerBroken(const core::RankKey& key) const {
  const core::RankKey first{key.job, key.generation, 0};
  for (auto it = processes_.lower_bound(first); it != processes_.end(); ++it) {
    if (it->first.job != key.job || it->first.generation != key.generation) break;
    if (it->second->broken()) return true;
  }
  return false;
}

std::vector<int> ProcessTable::Hung(const core::RankKey& key) const {
  std::vector<int> hung;
  for (const Process* process : alive()) {
    const core::RankKey& other = process->key();
    if (other.job != key.job || other.generation != key.generation) continue;
    if (process->hung()) hung.push_back(other.rank);
  }
  return hung;
}

bool ProcessTable::HasHung(const core::RankKey& key) const {
  const auto [begin, end] = processes_.equal_range(key);
  return std::any_of(begin, end, [](const auto& each) { return each.second->hung(); });
}

bool ProcessTable::Alone(const core::RankKey& key) const {
  for (const Process* process : alive()) {
    const bool peer = process->key().job == key.job && process->key().generation == key.generation;
    if (peer && !process->hung()) return false;
  }
  return true;
}

void ProcessTable::CheckReleased(const core::Coordinator& coordinator) const {
  for (const auto& [key, process] : processes_) {
    if (!process->alive()) continue;
    const core::Job* job = coordinator.job(key.job);
    if (job == nullptr) continue;
    if (job->generation != key.generation) {
      CheckOldGeneration(*process, coordinator);
      continue;
    }
    const bool released = job->ranks.at(key.rank).state == core::RankState::kReleased;
    env_.Expect(!released, absl::StrCat(Name(key), " was released, but its process runs"));
  }
}

// A command cannot be fenced. Its daemon ends it before the coordinator may place it elsewhere,
// unless the daemon is frozen.
void ProcessTable::CheckOldGeneration(const Process& process,
                                      const core::Coordinator& coordinator) const {
  const Process::Parent& parent = process.parent();
  const bool lost = !coordinator.CheckWorker(parent.worker, parent.incarnation).ok();
  env_.Expect(lost, absl::StrCat(Name(process.key()),
                                 " runs beside a later generation, and its worker is not lost"));
  env_.Expect(
      !process.command() || process.neglected(),
      absl::StrCat(Name(process.key()), " is a command and runs beside a later generation"));
}

std::vector<Process*> ProcessTable::alive() const {
  std::vector<Process*> alive;
  for (const auto& [key, process] : processes_) {
    if (process->alive()) alive.push_back(process.get());
  }
  return alive;
}

void ProcessTable::ToldSum(const core::RankKey& rank, int64_t sum) {
  env_.Expect(sums_[{rank.job, rank.generation}].insert(sum).second,
              absl::StrCat(Name(rank), " was told the sum ", sum, ", which was told already"));
}

void ProcessTable::ToldElement(const core::RankKey& rank, const std::string& element) {
  env_.Expect(
      elements_[{rank.job, rank.generation}].insert(element).second,
      absl::StrCat(Name(rank), " was told the element ", element, ", which was told already"));
}

size_t ProcessTable::sums(JobId job, Generation generation) const {
  const auto it = sums_.find({job, generation});
  if (it == sums_.end()) return 0;
  // An add with two effects leaves a gap.
  return it->second.size() == static_cast<size_t>(*it->second.rbegin()) ? it->second.size() : 0;
}

Process::Process(Environment& environment, Network& network, ProcessTable& table,
                 const Parent& parent, const core::RankKey& key, int world_size, bool command)
    : env_(environment),
      network_(network),
      table_(table),
      parent_(parent),
      node_(parent.node),
      key_(key),
      world_size_(world_size),
      command_(command),
      store_client_(env_.dice.Seed() | 1) {}

void Process::Begin(std::function<void(const core::Exit&)> on_exit) {
  table_.Began(shared_from_this());
  on_exit_ = std::move(on_exit);
  Later(env_.dice.Between(absl::Milliseconds(1), absl::Milliseconds(500)),
        [this] { command_ ? Work(1) : Join(); });
}

// Long enough that some commands outlive the lease of a worker that is cut off.
void Process::Work(int step) {
  if (step > kSteps) return End({core::Exit::How::kCode, 0});
  Later(env_.dice.Between(absl::Milliseconds(1), absl::Seconds(8)),
        [this, step] { Work(step + 1); });
}

void Process::Join() {
  Retry<core::World>(
      env_, kPatient,
      [self = shared_from_this()](absl::Duration deadline, Reply<core::World> done) {
        self->network_.Call<core::World>(
            self->node_, deadline,
            [key = self->key_](Service& service, auto reply) { service.Join(key, reply); },
            std::move(done));
      },
      [self = shared_from_this()](const absl::StatusOr<core::World>& world) {
        if (!self->runs()) return;
        if (absl::IsFailedPrecondition(world.status())) return self->WaitToBeStopped();
        if (!world.ok()) return self->End({core::Exit::How::kCode, 1});
        self->Later(kMeetWithin, [raw = self.get()] {
          if (!raw->met_) raw->End({core::Exit::How::kCode, 1});
        });
        self->Watch(Revision());
      });
}

void Process::Watch(Revision since) {
  network_.Call<core::World>(
      node_, absl::Seconds(7),
      [key = key_, since](Service& service, auto reply) {
        service.WatchWorld(key.job, key.generation, since, absl::Seconds(5), reply);
      },
      [self = shared_from_this(), since](const absl::StatusOr<core::World>& world) {
        if (!self->runs() || self->idle_) return;
        if (!world.ok()) {
          self->Later(absl::Milliseconds(500), [raw = self.get(), since] { raw->Watch(since); });
          return;
        }
        self->env_.Expect(world->version >= since, "the version of a world went back");
        // A later generation has begun: this one is over.
        if (world->generation > self->key_.generation) return self->WaitToBeStopped();
        if (world->state == core::WorldState::kClosed) return self->WaitToBeStopped();
        self->asked_to_leave_ |= !world->handover.empty();
        if (world->state == core::WorldState::kSealed && !std::exchange(self->working_, true)) {
          self->Exchange();
        }
        self->Watch(world->version);
      });
}

void Process::Exchange() {
  const auto address = [](int rank) { return absl::StrCat("address/", rank); };
  std::vector<StoreOperation> reads;
  for (int rank = 0; rank < world_size_; ++rank) reads.push_back(StoreGet{address(rank)});
  reads.push_back(StoreReached{"met", world_size_});
  Execute({StoreSet{address(key_.rank), "here"}, StoreAdd{"met", 1}}, [this, reads](const auto&) {
    Retry<Done>(
        env_, kPatient,
        [self = shared_from_this(), reads](absl::Duration deadline, Reply<Done> done) {
          self->network_.Call<Done>(
              self->node_, deadline,
              [key = self->key_, reads, deadline](Service& service, auto reply) {
                service.Await(key.job, key.generation, reads, deadline, reply);
              },
              std::move(done));
        },
        [self = shared_from_this()](const absl::StatusOr<Done>& all_there) {
          if (!self->runs()) return;
          self->met_ = all_there.ok();
          all_there.ok() ? self->Step(1) : self->WaitToBeStopped();
        });
  });
}

void Process::Step(int step) {
  if (asked_to_leave_ && step <= kSteps) return Leave(step - 1);
  if (key_.rank == 0 && step == 2) TellFirstStep();
  if (key_.rank == 0 && step > 1) SaveCheckpoint(step - 1);
  if (step > kSteps) return Finish();
  const std::string element = absl::StrCat(key_.rank, " at ", step);
  Execute({StoreAdd{"steps", 1}, StoreQueuePush{"queue", element}},
          [this, step](const std::vector<StoreResult>& results) {
            table_.ToldSum(key_, results.at(0).number);
            Pop(step);
          });
}

void Process::TellFirstStep() {
  Retry<Done>(
      env_, kPatient,
      [self = shared_from_this()](absl::Duration deadline, Reply<Done> done) {
        self->network_.Call<Done>(
            self->node_, deadline,
            [key = self->key_](Service& service, auto reply) {
              service.Act(core::CompleteFirstStep{key}, reply);
            },
            std::move(done));
      },
      [](const auto&) {});  // rejected if its generation is over
}

void Process::SaveCheckpoint(int step) {
  const core::RegisterCheckpoint checkpoint{
      key_, step, absl::StrCat("/checkpoints/", step), std::string(64, 'a'), 100, /*keep=*/2};
  Retry<Done>(
      env_, kPatient,
      [self = shared_from_this(), checkpoint](absl::Duration deadline, Reply<Done> done) {
        self->network_.Call<Done>(
            self->node_, deadline,
            [checkpoint](Service& service, auto reply) {
              service.RegisterCheckpoint(checkpoint, reply);
            },
            std::move(done));
      },
      [](const auto&) {});  // one more or less; the invariants look at the record
}

// Each rank has pushed as many elements as it pops, so the queue is never empty.
void Process::Pop(int step) {
  Execute({StoreQueuePop{"queue"}}, [this, step](const std::vector<StoreResult>& results) {
    env_.Expect(results.at(0).found, "a queue has lost an element");
    table_.ToldElement(key_, results.at(0).value);
    Later(env_.dice.Between(absl::Milliseconds(10), absl::Seconds(3)),
          [this, step] { Step(step + 1); });
  });
}

void Process::Finish() {
  if (idle_) return;
  if (!table_.PeerBroken(key_)) return End({core::Exit::How::kCode, 0});
  Accuse();
  WaitToBeStopped();
}

void Process::Leave(int steps_done) {
  if (idle_) return;
  if (table_.PeerBroken(key_)) return Finish();
  if (key_.rank == 0 && steps_done > 0) SaveCheckpoint(steps_done);
  End({core::Exit::How::kCode, kHandedOverExitCode});
}

bool Process::LeftAsAsked() const {
  return exit_ == core::Exit{core::Exit::How::kCode, kHandedOverExitCode};
}

void Process::Accuse() {
  for (const bool insist : {false, true}) {
    Later(insist ? absl::Seconds(2) : absl::ZeroDuration(), [this, insist] {
      const core::AccusePeers accusation{key_, table_.Hung(key_), "a peer did not arrive", insist};
      network_.Call<Done>(
          node_, absl::Seconds(2),
          [accusation](Service& service, auto reply) { service.Accuse(accusation, reply); },
          [](const auto&) {});  // if lost, the rank ends itself after a while
    });
  }
}

void Process::WaitToBeStopped() {
  if (std::exchange(idle_, true)) return;
  Later(kDetectWithin, [this] { End({core::Exit::How::kCode, 1}); });
}

void Process::Execute(std::vector<StoreOperation> operations,
                      std::function<void(const std::vector<StoreResult>&)> then) {
  const core::StoreBatch batch{key_.job, key_.generation, store_client_, ++store_sequence_,
                               std::move(operations)};
  using Results = std::vector<StoreResult>;
  Retry<Results>(
      env_, kPatient,
      [self = shared_from_this(), batch](absl::Duration deadline, Reply<Results> done) {
        self->network_.Call<Results>(
            self->node_, deadline,
            [batch](Service& service, auto reply) { service.Execute(batch, reply); },
            std::move(done));
      },
      [self = shared_from_this(), then = std::move(then)](const absl::StatusOr<Results>& results) {
        if (!self->runs() || self->idle_) return;
        results.ok() ? then(*results) : self->WaitToBeStopped();
      });
}

void Process::Terminate() {
  if (env_.dice.Chance(0.1)) return;  // ignores the signal, and will be killed
  Later(env_.dice.Between(absl::ZeroDuration(), absl::Seconds(2)), [this] {
    End({core::Exit::How::kSignal, 15});
  });
}

void Process::Hang() {
  hung_ = true;
  env_.Tell(absl::StrCat(Name(key_), " hangs"));
}

void Process::Vanish() {
  on_exit_ = nullptr;
  End({core::Exit::How::kSignal, 9});
}

void Process::End(const core::Exit& exit) {
  if (!std::exchange(alive_, false)) return;
  exit_ = exit;
  env_.Tell(absl::StrCat(Name(key_), " ends: ", core::Describe(exit)));
  if (on_exit_) on_exit_(exit);
}

void Process::Later(absl::Duration delay, std::function<void()> event) {
  env_.events.After(delay, [self = shared_from_this(), event = std::move(event)] {
    if (self->runs()) event();
  });
}

}  // namespace dp::sim
