#include "server/core/digest.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/field_list.h"

namespace dp::core {
namespace {

// Adds values in an order that no release changes: journals have their digests beside them
// (tests/journals). A field that later releases add therefore counts only if it is set. Text that
// the machine words itself does not count, since a better wording must not make an old journal look
// broken.
class StateDigester {
 public:
  void Add(const State& state) {
    const auto& [epoch, revision, at, workers, jobs, store_ports, events, limits, kept_answers,
                 stores, access, versions] = state;
    AddAll(epoch, revision, at, limits);
    if (kept_answers != KeptAnswers::kWhole) Add(kept_answers);
    AddAll(workers.last_id(), workers.by_id().size());
    for (const auto& [id, worker] : workers.by_id()) Add(worker);
    for (const Incarnation life : workers.lost_lives()) Add(life);
    AddAll(jobs.last_id(), jobs.jobs().size());
    for (const Job* job : jobs.jobs()) Add(*job);
    for (const JobId id : jobs.finished()) Add(id);
    AddAll(store_ports.uses(), events.last(), events.events().size());
    for (const auto& [number, event] : events.events()) Add(event);
    for (const auto& [job, store] : stores) AddAll(job, store);
    Add(access);
    for (const auto& [topic, version] : versions) AddAll(topic.kind, topic.id, topic.key, version);
  }

  uint64_t value() const { return digest_.value(); }

 private:
  template <typename T>
  static constexpr bool kIsNumber = std::is_integral_v<T> || std::is_enum_v<T>;

  template <typename... Values>
  void AddAll(const Values&... values) {
    (Add(values), ...);
  }

  template <typename T>
  requires kIsNumber<T>
  void Add(const T& value) { digest_.Add(static_cast<uint64_t>(value)); }
  template <typename Tag>
  void Add(const Id<Tag>& id) {
    digest_.Add(id);
  }
  void Add(const std::string& bytes) { digest_.Add(bytes); }
  void Add(const absl::Time& time) { digest_.Add(time); }
  void Add(const absl::Duration& duration) {
    const bool finite = duration < absl::InfiniteDuration();
    AddAll(finite, finite ? absl::ToInt64Nanoseconds(duration) : 0);
  }
  // Numbers have ~0 for none.
  template <typename T>
  void Add(const std::optional<T>& value) {
    if constexpr (kIsNumber<T>) {
      digest_.Add(value.has_value() ? static_cast<uint64_t>(*value) : ~uint64_t{0});
    } else if constexpr (std::is_same_v<T, absl::Time>) {
      AddAll(value.has_value(), value.value_or(absl::UnixEpoch()));
    } else {
      Add(value.has_value());
      if (value.has_value()) Add(*value);
    }
  }
  template <typename First, typename Second>
  void Add(const std::pair<First, Second>& value) {
    AddAll(value.first, value.second);
  }
  template <typename Container>
  requires requires(const Container& values) { values.begin(); }
  void Add(const Container& values) {
    Add(values.size());
    AddEach(values);
  }
  template <typename Container>
  void AddEach(const Container& values) {
    for (const auto& value : values) Add(value);
  }
  void AddIf(bool set, absl::string_view what) {
    if (set) digest_.Add(what);
  }

  // Adds the first fields of the list in its order, up to kLast, which is the kFirst-th; and the
  // later ones if they are set.
  template <size_t kFirst, auto kLast, typename T>
  void AddFields(const T& value) {
    static_assert(T::Fields::template IndexOf<kLast>() == kFirst - 1, "later fields come last");
    ForEachField<T>([&](auto field) {
      if constexpr (T::Fields::template IndexOf<field.kMember>() < kFirst) {
        Add(value.*field.kMember);
      } else {
        AddIfSet(value, field);
      }
    });
  }
  // For a struct whose first fields are added in another way: adds those behind kLast, which is the
  // kFirst-th in the list.
  template <size_t kFirst, auto kLast, typename T>
  void AddLater(const T& value) {
    static_assert(T::Fields::template IndexOf<kLast>() == kFirst - 1, "later fields come last");
    ForEachField<T>([&](auto field) {
      if constexpr (T::Fields::template IndexOf<field.kMember>() >= kFirst) AddIfSet(value, field);
    });
  }
  template <typename T, typename Field>
  void AddIfSet(const T& value, Field field) {
    StateDigester now, usual;
    now.Add(value.*field.kMember);
    usual.Add(T().*field.kMember);
    if (now.value() == usual.value()) return;
    digest_.Add(absl::string_view(field.Name().data(), field.Name().size()));
    Add(value.*field.kMember);
  }

  void Add(const KeyValueLimits& limits) { AddFields<4, &KeyValueLimits::total_bytes>(limits); }
  void Add(const RankKey& rank) { AddFields<3, &RankKey::rank>(rank); }
  void Add(const Dependency& dependency) { AddFields<2, &Dependency::must_succeed>(dependency); }
  void Add(const AwaitedJob& awaited) { AddFields<2, &AwaitedJob::state>(awaited); }
  void Add(const Drain& drain) { AddFields<3, &Drain::at>(drain); }
  void Add(const Checkpoint& checkpoint) { AddFields<6, &Checkpoint::at>(checkpoint); }
  void Add(const Weights& weights) { AddFields<3, &Weights::bytes>(weights); }
  void Add(const Rank& rank) { AddFields<10, &Rank::exit>(rank); }
  void Add(const Suspicion& suspicion) { AddFields<3, &Suspicion::error>(suspicion); }
  void Add(const PastFailure& past) { AddFields<2, &PastFailure::counted_as>(past); }
  void Add(const SealedSecret& secret) { AddFields<2, &SealedSecret::sealed>(secret); }
  void Add(const Exit& exit) { AddAll(exit.how, exit.number); }
  void Add(const LabelConstraint& constraint) { Add(ToString(constraint)); }
  void Add(const StorePorts::Use& use) { AddAll(use.holder, use.free_since); }
  void Add(const KeyValues::Entry& entry) { AddAll(entry.value, entry.version); }
  void Add(const Rendezvous& world) { AddAll(world.state(), world.size(), world.members()); }

  void Add(const security::Identity& identity) {
    AddFields<2, &security::Identity::name>(identity);
  }
  void Add(const Holder& holder) { AddFields<2, &Holder::revoked_at>(holder); }
  void Add(const UsedToken& token) { AddFields<2, &UsedToken::expires_at>(token); }
  void Add(const AccessList& access) {
    const auto& [people, workers, tokens] = access.contents();
    if (people.empty() && workers.empty() && tokens.empty()) return;
    AddAll(people, workers, tokens);
  }

  // Without the text.
  void Add(const Event& event) {
    AddAll(event.number, event.at, event.job, event.worker, event.kind);
    AddLater<6, &Event::text>(event);
  }

  void Add(const Worker& worker) {
    AddAll(worker.id, worker.name, worker.host, worker.address, worker.incarnation, worker.state,
           worker.leaving, worker.lost_reason, worker.lost_at.value_or(absl::UnixEpoch()));
    Add(worker.slots.size());
    for (const std::optional<RankKey>& holder : worker.slots) Add(holder.value_or(RankKey{}));
    AddEach(worker.ports);
    AddAll(worker.gpus, worker.interface, worker.labels);
    AddIf(!worker.process_tracking.empty(), worker.process_tracking);
    if (worker.slot_report > 0) Add(worker.slot_report);
    AddIf(worker.trains_on_gpus, "trains on GPUs");
    AddEach(worker.unhealthy);
    Add(worker.drain);
    AddLater<19, &Worker::lost_reason>(worker);
  }

  // Without the message.
  void Add(const Failure& failure) {
    AddAll(failure.failure_class, failure.rank, failure.worker, failure.host, failure.at,
           failure.last_lines.size(), failure.generation, failure.preempted_by, failure.running_at);
    AddIf(failure.before_first_step, "before the first step");
    AddEach(failure.last_lines);
    Add(failure.exit);
    AddLater<12, &Failure::before_first_step>(failure);
  }

  void Add(const RestartLimits& limits) {
    constexpr size_t kNumbers = 5;
    AddAll(kNumbers, limits.user, limits.infra, limits.hang, limits.oom, limits.startup);
    AddAll(absl::ToInt64Milliseconds(limits.window), limits.never_exit_codes,
           limits.always_exit_codes);
    AddLater<8, &RestartLimits::always_exit_codes>(limits);
  }

  // Without the jobs that it waits for, which are in Job::after.
  void Add(const Scheduling& scheduling) {
    AddAll(scheduling.queue, scheduling.priority, scheduling.hold, scheduling.singleton,
           scheduling.slots, scheduling.constraints, scheduling.preemptible, scheduling.grow_after,
           scheduling.max_duration, scheduling.ttl_after_finish);
    AddLater<11, &Scheduling::grow_after>(scheduling);
  }

  void Add(const Handover& handover) {
    AddAll(handover.reason, handover.cause, handover.preempted_by, handover.leave_by);
    AddIf(handover.names_checkpoint, "names its checkpoint");
    AddLater<5, &Handover::names_checkpoint>(handover);
  }

  void Add(const Job& job) {
    const JobSpec& spec = job.spec;
    AddAll(job.id, job.request_id, spec.name, spec.payload, spec.ranks, spec.nodes,
           spec.joins_by_running, job.state, spec.store_port, job.store_port, spec.saves);
    AddIf(spec.gpu_training, "trains on GPUs");
    if (spec.gpu_training) Add(job.on_gpus);
    if (spec.detect_within < absl::InfiniteDuration()) Add(spec.detect_within);
    AddAll(spec.grace, job.version, job.generation, job.ranks, job.world, job.suspicion,
           job.failure, job.checkpoints.all(), job.weights.has_value(), job.handover);
    if (job.weights.has_value()) Add(*job.weights);
    AddAll(spec.restart, job.past.size(), job.restart_count);
    AddEach(job.past);
    AddAll(job.restarts, job.not_before, job.no_retry, job.not_restarted, job.submitted_at,
           job.placed_at, job.running_at);
    if (const Checkpoint* best = job.checkpoints.best()) Add(*best);
    AddIf(job.tells_first_step, "tells its first step");
    if (job.first_step_at.has_value()) Add(*job.first_step_at);
    AddAll(job.finished_at, job.user, spec.nodes_max, spec.scheduling, spec.join_within,
           job.priority, job.held, job.queued, job.after, job.time_left, job.deadline);
    AddLater<14, &JobSpec::detect_within>(spec);
    AddLater<34, &Job::finished_at>(job);
  }

  void Add(const GenerationStore& store) {
    const KeyValues& values = store.values();
    AddAll(values.revision(), values.deletion(), values.entries(), values.queues(),
           store.clients());
  }
  void Add(const GenerationStore::LastAnswer& last) {
    AddAll(last.sequence, last.answer.refused.size());
    for (const GroupResults::Refused& refused : last.answer.refused) {
      AddAll(refused.group, refused.status.code());
    }
    Add(last.answer.results);
  }
  void Add(const StoreResult& result) {
    AddAll(result.found, result.value, result.number, result.keys.size(), result.version);
    AddEach(result.keys);
  }

  Digest digest_;
};

}  // namespace

Digest& Digest::Add(uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) Byte(static_cast<uint8_t>(value >> shift));
  return *this;
}

Digest& Digest::Add(absl::string_view bytes) {
  Add(bytes.size());
  for (const char byte : bytes) Byte(static_cast<uint8_t>(byte));
  return *this;
}

Digest& Digest::Add(absl::Time time) { return Add(static_cast<uint64_t>(absl::ToUnixNanos(time))); }

uint64_t DigestOf(const State& state) {
  StateDigester digest;
  digest.Add(state);
  return digest.value();
}

}  // namespace dp::core
