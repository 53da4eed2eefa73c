#include "client/dpctl/local/local_cluster.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "client/dpctl/local/child_ends.h"
#include "client/dpctl/local/child_process.h"
#include "client/dpctl/local/program_beside.h"
#include "client/dpctl/local/scratch_dir.h"

namespace dp::ctl {
namespace {

// How long a server may take to report that it is ready. Generous: the machine may be busy, and the
// trainer's self-check on GPUs may take a minute to wake the driver and load some gigabytes.
constexpr absl::Duration kReadyWithin = absl::Minutes(2);
// After this time dpctl shows what a program that is not ready has logged.
constexpr absl::Duration kQuietFor = absl::Seconds(10);
// How much longer than its ranks' grace a worker may take to stop: it sends their last lines.
constexpr absl::Duration kStopSlack = absl::Seconds(5);

class Processes final : public LocalCluster {
 public:
  ~Processes() override {
    // Workers first: they stop their ranks, and report that to the coordinator.
    while (!children_.empty()) {
      children_.back().Stop(stop_within_);
      children_.pop_back();
    }
  }

  absl::Status Start(const LocalOptions& options) {
    stop_ = options.stop;
    note_ = options.note;
    stop_within_ = options.grace + kStopSlack;
    DP_RETURN_IF_ERROR(scratch_.Make());
    std::vector<std::string> flags = {"--listen", "127.0.0.1:0", "--data-dir", scratch_.Of("data")};
    if (options.serves_stores) flags.insert(flags.end(), {"--tcpstore-listen", "127.0.0.1:0"});
    DP_ASSIGN_OR_RETURN(std::string ready,
                        StartOne("dp-coordinator", "coordinator", std::move(flags)));
    // The ready line ends with the address.
    address_ = std::vector<std::string>(absl::StrSplit(ready, ' ')).back();
    for (int i = 0; i < options.workers; ++i) {
      const std::string name = absl::StrCat("local-", i);
      // The environment is that of the job's own user, who may be root.
      DP_RETURN_IF_ERROR(
          StartOne("dp-worker", name,
                   {"--coordinator", address_, "--name", name, "--slots",
                    absl::StrCat(options.slots), "--state-dir", scratch_.Of(name), "--credentials",
                    credential_dir(), "--pass-all-env", "--run-as", "self", "--allow-root"})
              .status());
    }
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }
  std::string credential_dir() const override { return scratch_.Of("data/identity/admin"); }
  std::shared_ptr<void> Watch(std::function<void(const std::string&)> lost) override {
    std::vector<int> pidfds;
    for (const ChildProcess& child : children_) pidfds.push_back(child.pidfd());
    return std::make_shared<ChildEnds>(
        std::move(pidfds),
        [this, lost = std::move(lost), workers = children_.size() - 1](size_t place) mutable {
          if (workers == 0) return;  // reported before
          workers = place == 0 ? 0 : workers - 1;
          if (workers == 0) lost(HowItEnded(place));
        });
  }
  // A killed worker takes its ranks along: their guards kill them.
  void EndAtOnce() override { stop_within_ = absl::ZeroDuration(); }

 private:
  std::string HowItEnded(size_t place) const {
    const std::string name = place == 0 ? "coordinator" : absl::StrCat("local-", place - 1);
    return absl::StrCat(place == 0 ? "dp-coordinator" : absl::StrCat("dp-worker ", name),
                        ", which --local had started, ", children_[place].HowItEnded(),
                        "; its last lines:", LastLines(scratch_.Of(name + ".log")));
  }
  // Returns the program's ready line.
  absl::StatusOr<std::string> StartOne(const std::string& program, const std::string& name,
                                       std::vector<std::string> argv) {
    DP_ASSIGN_OR_RETURN(std::string path, ProgramBeside(program));
    argv.insert(argv.begin(), std::move(path));
    const std::string errors = scratch_.Of(name + ".log");
    DP_ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(argv, errors));
    children_.push_back(std::move(child));
    absl::StatusOr<std::string> line = children_.back().FirstLine(kQuietFor, stop_);
    if (absl::IsDeadlineExceeded(line.status())) {
      const std::string logged = LastLines(errors);
      note_(absl::StrCat(program, " is not ready yet; dpctl waits up to ",
                         absl::FormatDuration(kReadyWithin),
                         logged.empty() ? "; it has logged nothing" : "; its last lines:", logged));
      line = children_.back().FirstLine(kReadyWithin - kQuietFor, stop_);
    }
    if (absl::IsCancelled(line.status())) return line;
    if (!line.ok())
      return absl::InternalError(absl::StrCat(
          program, " did not become ready: ", line.status().message(), LastLines(errors)));
    return line;
  }

  ScratchDir scratch_;  // first, so that it is removed after the processes that write there
  std::vector<ChildProcess> children_;
  std::string address_;
  int stop_ = -1;
  std::function<void(const std::string&)> note_;
  absl::Duration stop_within_ = kStopSlack;
};

// The first line of --list-gpus: "2 GPUs that ranks may use, by nvml", or "0 GPUs that ranks may
// use: no driver".
absl::StatusOr<std::string> FirstLineOfGpuList() {
  DP_ASSIGN_OR_RETURN(std::string path, ProgramBeside("dp-worker"));
  DP_ASSIGN_OR_RETURN(ChildProcess child,
                      ChildProcess::Start({std::move(path), "--list-gpus"}, "/dev/null"));
  return child.FirstLine(kReadyWithin);
}

}  // namespace

LocalGpus FindLocalGpus() {
  const absl::StatusOr<std::string> line = FirstLineOfGpuList();
  if (!line.ok()) {
    return {.count = 0,
            .why_not = absl::StrCat("dp-worker --list-gpus: ", line.status().message())};
  }
  const std::vector<std::string> parts = absl::StrSplit(*line, absl::MaxSplits(": ", 1));
  LocalGpus gpus;
  const std::string count = parts[0].substr(0, parts[0].find(' '));
  if (!absl::SimpleAtoi(count, &gpus.count)) gpus.count = 0;
  if (gpus.count == 0) gpus.why_not = parts.back();
  return gpus;
}

absl::StatusOr<std::unique_ptr<LocalCluster>> StartLocalCluster(const LocalOptions& options) {
  auto processes = std::make_unique<Processes>();
  DP_RETURN_IF_ERROR(processes->Start(options));
  return processes;
}

}  // namespace dp::ctl
