#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/dependency.h"
#include "base/field_list.h"
#include "base/labels.h"

namespace dp::core {

// How often a job may get another generation, by the class of the failure that ended the last one.
// The machine stores the limits; the policy (retry_policy.h) reads them.
struct RestartLimits {
  int user = 0;    // over the whole job; includes ranks that could not be started
  int infra = 10;  // within `window`, as are `hang` and `oom`
  int hang = 3;
  std::optional<int> oom;  // absent: `user` pays for these too
  int startup = 3;  // consecutive generations without a first step, of any class but kPreempt
  absl::Duration window = absl::Hours(1);
  // Exit codes of a rank; 128 + N for signal N.
  std::vector<int> never_exit_codes = {};
  std::vector<int> always_exit_codes = {};  // retried uncounted, unless listed above too

  using Fields = FieldList<&RestartLimits::user, &RestartLimits::infra, &RestartLimits::hang,
                           &RestartLimits::oom, &RestartLimits::startup, &RestartLimits::window,
                           &RestartLimits::never_exit_codes, &RestartLimits::always_exit_codes>;

  bool operator==(const RestartLimits&) const = default;
};

// Which slots of a worker a job can use.
enum class SlotKind {
  kAny,
  kGpu,
  kCpu,
  kTrainingGpu,  // slots with a GPU, on a worker whose trainer can use it
};

// When and where a job may run (docs/scheduling.md).
struct Scheduling {
  std::string queue = "default";
  int priority = 0;  // higher goes first
  bool hold = false;
  std::vector<Dependency> after = {};
  bool singleton = false;
  absl::Duration max_duration = absl::InfiniteDuration();      // how long the job may hold slots
  absl::Duration ttl_after_finish = absl::InfiniteDuration();  // then its record is dropped
  SlotKind slots = SlotKind::kAny;
  std::vector<LabelConstraint> constraints = {};
  bool preemptible = false;  // leaves its slots to jobs of higher priority
  // How long an elastic job runs before it may come back with more workers; infinite: never.
  absl::Duration grow_after = absl::InfiniteDuration();

  using Fields =
      FieldList<&Scheduling::queue, &Scheduling::priority, &Scheduling::hold, &Scheduling::after,
                &Scheduling::singleton, &Scheduling::max_duration, &Scheduling::ttl_after_finish,
                &Scheduling::slots, &Scheduling::constraints, &Scheduling::preemptible,
                &Scheduling::grow_after>;

  bool operator==(const Scheduling&) const = default;
};

// A variable of a job's ranks whose value the machine keeps, but cannot read: the key
// (base/security/sealing_key.h) is outside the machine.
struct SealedSecret {
  std::string name;
  std::string sealed;

  using Fields = FieldList<&SealedSecret::name, &SealedSecret::sealed>;

  bool operator==(const SealedSecret&) const = default;
};

uint64_t BytesOf(const std::vector<SealedSecret>& secrets);

// The part of a job's spec that the machine reads. The rest is opaque to it.
struct JobSpec {
  std::string name;
  int ranks = 1;
  std::string payload;      // the serialized dp.v1.JobSpec, handed to workers and ranks unread
  bool store_port = false;  // its TCPStore endpoint needs a port
  int nodes = 0;            // workers that take `ranks / nodes` each; 0: as few workers as will do
  // The ranks are programs that make no join call: each counts as joined once its process runs.
  bool joins_by_running = false;
  // After a failure, a command decides whether the job gets another generation. Absent: it never
  // does, as in journals of releases without restarts.
  std::optional<RestartLimits> restart = {};
  // An elastic job takes up to so many free workers, each with `ranks / nodes` ranks. Not below
  // `nodes`, which must be set. 0: the job takes `nodes` workers.
  int nodes_max = 0;
  Scheduling scheduling = {};
  // How long the ranks may take to save and leave after a request. The value here is the one for
  // journal records without a grace. It must not change: it was the default when those were
  // written.
  absl::Duration grace = absl::Seconds(10);
  bool saves = false;  // the ranks have something to save when they are asked to leave
  // How long the last rank may take to join once the processes of all ranks run. Infinite for jobs
  // that join by running, and in journals of releases without this limit.
  absl::Duration join_within = absl::InfiniteDuration();
  // The ranks train on GPUs if every rank gets a slot that has a GPU to train on.
  bool gpu_training = false;
  // How soon the coordinator must notice the death of a host. Infinite in journals of releases with
  // one lease for all workers.
  absl::Duration detect_within = absl::InfiniteDuration();

  using Fields =
      FieldList<&JobSpec::name, &JobSpec::ranks, &JobSpec::payload, &JobSpec::store_port,
                &JobSpec::nodes, &JobSpec::joins_by_running, &JobSpec::restart, &JobSpec::nodes_max,
                &JobSpec::scheduling, &JobSpec::grace, &JobSpec::saves, &JobSpec::join_within,
                &JobSpec::gpu_training, &JobSpec::detect_within>;

  int ranks_per_node() const { return nodes > 0 ? ranks / nodes : ranks; }
  int ranks_max() const { return nodes_max > nodes ? nodes_max * ranks_per_node() : ranks; }
  bool operator==(const JobSpec&) const = default;
};

}  // namespace dp::core
