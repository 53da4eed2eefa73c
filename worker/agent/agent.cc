#include "worker/agent/agent.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/program/log.h"
#include "base/random.h"
#include "base/security/credential.h"
#include "base/status.h"
#include "proto/convert/time.h"
#include "proto/job/trainer_level.h"
#include "worker/agent/earlier_exits.h"
#include "worker/agent/gpus/gpu_report.h"
#include "worker/agent/launch/missing_torch.h"
#include "worker/agent/local_address.h"
#include "worker/agent/rank_log.h"
#include "worker/agent/rank_report.h"

namespace dp::worker {
namespace {

std::function<bool()> AbsenceAsSeenBy(ListenerProbe* probe) {
  if (probe == nullptr) return nullptr;
  return [probe] { return probe->NobodyListens(); };
}

std::function<std::optional<v1::StoreClients>(uint64_t*)> ClientsSeenBy(StoreEndpoints* stores) {
  if (stores == nullptr) return nullptr;
  return [stores](uint64_t* number) { return stores->ClientsSince(number); };
}

}  // namespace

Agent::Agent(AgentOptions options, client::Connection& connection, ProcessRunner& runner,
             Mailbox& mailbox, const Clock& clock)
    : options_(std::move(options)),
      runner_(runner),
      mailbox_(mailbox),
      clock_(clock),
      slots_({options_.slot_devices, options_.device_memory, options_.device_limits,
              options_.gpu_health},
             mailbox, clock.Now()),
      accounts_(options_.run_as, options_.ask_account),
      left_overs_(options_.state_dir, options_.left_overs_max, shipper_),
      random_state_(options_.seed),
      rank_host_(options_.rank_host),
      report_turn_(NextRandom(random_state_)),
      lease_(
          connection, [this] { return Registration(); },
          {.clock = clock_,
           .coordinator_absent = AbsenceAsSeenBy(options_.coordinator_probe),
           .earlier_gone = options_.earlier_gone,
           .gpus_since = [this](uint64_t* number) { return GpusSince(number); },
           .store_clients_since = ClientsSeenBy(options_.stores),
           .earlier_exits =
               [this] { return EarlierExits(options_.state_dir, left_overs_.found()); }},
          NextRandom(random_state_), mailbox),
      watch_(connection, NextRandom(random_state_), mailbox),
      reporter_(connection, mailbox),
      shipper_(connection,
               {.seed = NextRandom(random_state_),
                .spool_bytes_max = options_.spool_bytes_max,
                .spool_disk = [this] { return DiskOf(options_.state_dir); }},
               [&mailbox](const LogsNews& news) { mailbox.Tell(news); }) {
  if (options_.gpus == nullptr) return;
  gpu_watch_.emplace(
      *options_.gpus, options_.rank_host.facts.devices, options_.gpus_read_every,
      [&mailbox](std::vector<GpuReading> gpus) { mailbox.Tell(GpusRead{std::move(gpus)}); });
}

absl::Status Agent::Run() {
  left_overs_.FollowFound();
  BeginIncarnation();
  for (;;) {
    ProbeSpool();
    slots_.Step(clock_.Now(), &observed_);
    const Decision decision = Reconcile(desired_, observed_, clock_.Now());
    // An action can make more work due (a decline needs a report), so reconcile again at once.
    const bool acted = CarryOut(decision);
    if (decision.finished && ModeFinished()) break;
    const absl::Duration patience = acted ? absl::ZeroDuration() : Patience(decision);
    for (const Message& message : mailbox_.DrainFor(patience)) {
      std::visit([this](const auto& each) { On(each); }, message);
    }
    ShowLife();
  }
  DropShippedSpools();
  mailbox_.Close();
  return *ending_;
}

bool Agent::CarryOut(const Decision& decision) {
  bool acted = false;
  for (const Action& action : decision.actions) {
    std::visit(
        [&](const auto& each) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(each)>, Report>) {
            Do(each);
            acted = true;
          }
        },
        action);
  }
  SendFirstReport(decision);
  return acted;
}

absl::Duration Agent::Patience(const Decision& decision) const {
  const bool rank_report =
      !decision.actions.empty() && std::holds_alternative<Report>(decision.actions.back());
  const bool report_waits = rank_report || SlotsReportDue();
  const absl::Time wake =
      std::min({decision.ask_again_at, slots_.wake_at(), probe_spool_at_,
                report_waits ? report_turn_.next_at() : absl::InfiniteFuture()});
  const absl::Duration pulse =
      options_.notify != nullptr ? options_.notify->pulse() : absl::InfiniteDuration();
  return std::min(wake - clock_.Now(), pulse);
}

void Agent::ShowLife() {
  if (options_.notify != nullptr) options_.notify->Alive(clock_.Now());
}

void Agent::Do(const Start& start) {
  const RankKey& key = start.rank.key;
  const LogSpool spool = SpoolOf(key);
  if (left_overs_.contains(key)) left_overs_.Drop(key);  // a spool of another coordinator's job
  const v1::AssignedRank& assigned = assigned_.at(key);
  const absl::Status made = MakeFiles(assigned, spool);
  if (!made.ok()) {
    spool.Remove();  // the files that could be made
    return DeclineAll(start.rank, std::string(made.message()));
  }
  observed_.AskedToStart(start.rank);
  slots_.Taken(start.rank.slot);
  (void)OomKillsGrew();  // kills before this start are not the rank's
  absl::StatusOr<RankCommand> command = CommandOf(assigned, spool);
  if (!command.ok()) {
    TakeNews(key, ProcessNotStarted{std::string(command.status().message())});
    observed_.LogsShipped(key);  // there are none, and nobody follows them
    spool.Remove();
    return;
  }
  shipper_.Follow(key, spool);
  runner_.Start(key, *std::move(command));
}

absl::Status Agent::MakeFiles(const v1::AssignedRank& rank, const LogSpool& spool) {
  DP_RETURN_IF_ERROR(spool.Create({dp::FromProto(rank.submitted_at()), session_}));
  DP_RETURN_IF_ERROR(spool.KeepSecrets(SecretsOf(rank)));
  if (options_.private_tmps == nullptr) return absl::OkStatus();
  const RankKey key = KeyOf(rank);
  return options_.private_tmps->Make(key.job, key.generation,
                                     MountsOf(rank_host_.sandbox, spool.generation_dir()));
}

absl::StatusOr<RankCommand> Agent::CommandOf(const v1::AssignedRank& rank, const LogSpool& spool) {
  DP_ASSIGN_OR_RETURN(const auto run_as, accounts_.Of(rank, rank_host_.worker));
  StoreEndpoint store;
  if (rank.spec().has_command()) {
    DP_ASSIGN_OR_RETURN(store, StoreOf(rank, run_as));
  }
  DP_RETURN_IF_ERROR(WriteRankCredential(rank, spool));
  if (run_as) DP_RETURN_IF_ERROR(spool.GiveTo(*run_as));
  DP_ASSIGN_OR_RETURN(RankCommand command, CommandFor(rank, rank_host_, store, spool, run_as));
  if (options_.private_tmps != nullptr) {
    const RankKey key = KeyOf(rank);
    command.mounts.private_tmp = options_.private_tmps->PathOf(key.job, key.generation);
  }
  return command;
}

absl::Status Agent::WriteRankCredential(const v1::AssignedRank& rank, const LogSpool& spool) const {
  if (!HasCredential(rank, rank_host_)) return absl::OkStatus();
  DP_ASSIGN_OR_RETURN(const security::Credential own,
                      security::ReadCredential(rank_host_.credential_dir));
  return security::WriteCredential(spool.credential_dir(),
                                   {.authorities = own.authorities, .token = rank.token()});
}

absl::StatusOr<StoreEndpoint> Agent::StoreOf(const v1::AssignedRank& rank,
                                             const std::optional<Account>& run_as) {
  if (options_.stores == nullptr || rank.store_port() == 0) return EndpointAtRank0(rank);
  return options_.stores->Open(rank,
                               {rank_host_.worker, rank_host_.address, rank_host_.coordinator},
                               run_as ? run_as->uid : geteuid());
}

void Agent::Do(const Decline& decline) {
  observed_.Declined(decline.rank, decline.reason, clock_.Now());
  observed_.LogsShipped(decline.rank.key);
}

// The host is at fault, not the job: without this the coordinator would place every job here, since
// the slots are free.
void Agent::DeclineAll(const AssignedRank& rank, const std::string& trouble) {
  slots_.SpoolIs(trouble);
  probe_spool_at_ = clock_.Now() + options_.spool_probe_every;
  Do(Decline{rank, trouble});
}

void Agent::ProbeSpool() {
  if (clock_.Now() < probe_spool_at_) return;
  const bool has_room =
      CheckSpoolRoom(options_.state_dir).ok() &&
      (options_.private_tmps == nullptr || options_.private_tmps->CheckRoom().ok());
  if (has_room) slots_.SpoolIs("");  // else the reason stays, and is not reported again
  probe_spool_at_ = has_room ? absl::InfiniteFuture() : clock_.Now() + options_.spool_probe_every;
}

void Agent::Do(const Terminate& terminate) {
  LogRank(Severity::kInfo, "rank_terminated", terminate.key);
  observed_.Terminated(terminate.key, clock_.Now());
  runner_.Terminate(terminate.key);
}

void Agent::Do(const Kill& kill) {
  LogRank(kill.isolated ? Severity::kWarning : Severity::kInfo, "rank_killed", kill.key,
          LogField("isolated", kill.isolated ? "yes" : "no"));
  observed_.Killed(kill.key, kill.isolated);
  runner_.Kill(kill.key);
}

void Agent::Do(const Forget& forget) {
  // The slot is free, or the lease was lost; the rank's output is sent all the same.
  const bool shipped = observed_.Find(forget.key)->logs_shipped;
  observed_.Forgotten(forget.key);
  WantAssigned();  // a rank of another job may take its place, once its account is known
  if (shipped) left_overs_.Drop(forget.key);
  if (!shipped) left_overs_.Add(forget.key);
  const auto& [job, generation, rank] = forget.key;
  if (Holds(job, generation)) return;
  if (options_.stores != nullptr) options_.stores->RanksGone(job, generation);
  if (options_.private_tmps != nullptr) options_.private_tmps->RanksGone(job, generation);
}

void Agent::SendFirstReport(const Decision& decision) {
  if (clock_.Now() < report_turn_.next_at()) return;
  // Unfit slots come first: the coordinator could give a released slot away at once.
  if (SlotsReportDue()) return SendSlotsReport();
  for (const Action& action : decision.actions) {
    const Report* report = std::get_if<Report>(&action);
    if (report == nullptr) continue;
    report_turn_.Begin();
    reporter_.Send(RankReport(*report));
    return;
  }
}

Reporter::Report Agent::RankReport(const Report& report) const {
  const Process& process = *observed_.Find(report.key);
  Reporter::Report made{report.key, process.number, report.milestone,
                        RequestFor(report, process, session_)};
  const auto assigned = assigned_.find(report.key);
  const bool lacks_torch = report.milestone == Milestone::kExited && LacksTorch(process.last_lines);
  if (!lacks_torch || assigned == assigned_.end()) return made;
  const auto command =
      CommandFor(assigned->second, rank_host_, StoreEndpoint(), SpoolOf(report.key));
  if (!command.ok()) return made;
  made.lacks_torch = {command->argv.front(), command->environment};
  // The daemon may see more files than the rank, and must not search its path for it.
  if (options_.run_as.changes_user()) made.lacks_torch->environment.clear();
  return made;
}

bool Agent::SlotsReportDue() const {
  return slots_.report_due() && session_.incarnation == incarnation_;
}

void Agent::SendSlotsReport() {
  v1::ReportSlotsRequest request = slots_.TakeReport();
  request.set_worker_id(session_.worker_id);
  request.set_incarnation(session_.incarnation.value());
  report_turn_.Begin();
  reporter_.Send(Reporter::SlotsReport{std::move(request)});
}

void Agent::BeginIncarnation() {
  incarnation_ = Incarnation(NextRandom(random_state_) | 1);  // 0 stands for none
  slots_.BeginIncarnation();
  lease_.Begin(incarnation_, RecordIncarnation());
}

// Records incarnation_ and returns the earlier ones. Earlier incarnations of this process count as
// dead, because they have no rank left.
std::vector<Incarnation> Agent::RecordIncarnation() {
  if (options_.incarnations == nullptr) return {};
  std::vector<Incarnation> earlier = options_.incarnations->recorded();
  const absl::Status added = options_.incarnations->Add(incarnation_);
  if (!added.ok()) {
    Log(Severity::kWarning, "incarnation_not_recorded", {{"reason", added.ToString()}});
  }
  return earlier;
}

bool Agent::ModeFinished() {
  if (ending_.has_value()) return true;
  DP_CHECK(desired_.mode == Mode::kAbandon && observed_.processes().empty());
  desired_.mode = Mode::kServe;
  BeginIncarnation();
  return false;
}

absl::StatusOr<v1::RegisterRequest> Agent::Registration() const {
  const absl::StatusOr<std::string> address = options_.address();
  if (!address.ok()) return address.status();
  v1::RegisterRequest request;
  request.set_name(options_.name);
  request.set_host(options_.host_name);
  request.set_address(*address);
  request.set_slots(options_.slots);
  request.mutable_ports()->Add(options_.ports.begin(), options_.ports.end());
  request.set_gpus(static_cast<int>(options_.rank_host.facts.devices.size()));
  request.set_takes_secrets(true);
  request.set_trainer_level(kTrainerLevel);
  request.set_trains_on_gpus(!options_.rank_host.cuda_trainer.empty());
  request.set_no_gpu_trainer(options_.rank_host.no_cuda_trainer);
  request.mutable_labels()->insert(options_.labels.begin(), options_.labels.end());
  request.set_interface(InterfaceWith(*address));
  request.set_process_tracking(options_.process_tracking);
  return request;
}

std::vector<v1::Gpu> Agent::GpusSince(uint64_t* number) const {
  if (!gpu_watch_) return {};
  const GpuWatch::Latest latest = gpu_watch_->latest();
  if (std::exchange(*number, latest.number) == latest.number) return {};
  return GpusToProto(latest.gpus, options_.slots, options_.gpu_health);
}

void Agent::DropShippedSpools() {
  for (const auto& [key, process] : observed_.processes()) {
    const bool known =
        process.acknowledged >= Milestone::kExited;  // otherwise the next daemon reports the exit
    if (process.logs_shipped && known) SpoolOf(key).Remove();
  }
}

}  // namespace dp::worker
