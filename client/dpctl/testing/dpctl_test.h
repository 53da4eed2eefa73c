#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/dpctl/program/cli.h"
#include "client/dpctl/testing/fake_coordinator.h"
#include "client/dpctl/testing/fake_logins.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace dp::ctl {

// Runs command lines against a fake coordinator. The time is always 2026-01-02 03:04:05 UTC. With
// clock_runs_ each reading of the clock advances it by a minute, so that calls which keep failing
// time out.
class DpctlTest : public ::testing::Test, private Clock {
 protected:
  struct Result {
    int code = 0;
    std::string out;
    std::string err;
  };

  // Single blanks separate words.
  Result Dpctl(const std::string& words) {
    std::vector<std::string> argv = absl::StrSplit("dpctl " + words, ' ');
    std::vector<const char*> raw;
    for (const std::string& word : argv) raw.push_back(word.c_str());
    Surroundings surroundings = MakeSurroundings();
    const int code = RunCommandLine(static_cast<int>(raw.size()), raw.data(), surroundings);
    return {code, out_.str(), err_.str()};
  }

  v1::Job& AddJob(uint64_t id, const std::string& text) {
    v1::Job& job = coordinator_.jobs[id];
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
    job.set_id(id);
    if (job.version() == 0) job.set_version(1);
    return job;
  }

  void AddLogPage(const std::string& text) {
    v1::ReadLogsResponse& page = coordinator_.log_pages.emplace_back();
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &page));
  }

  void PassTime(absl::Duration duration) { now_ += duration; }
  absl::Time now() const { return now_; }

  Interrupts interrupts_;
  std::function<absl::StatusOr<std::unique_ptr<LocalCluster>>(const LocalOptions&)> start_local_;
  std::function<absl::StatusOr<std::string>(const std::string& verb, const std::string& request)>
      run_trainer_;
  std::string address_;          // to which the last command connected
  absl::Status no_credentials_;  // OK: there are some
  absl::Status refusal_;         // of every handshake; OK: there is none
  int looks_into_refusal_ = 0;
  bool tty_ = false;      // standard error
  bool out_tty_ = false;  // standard output
  int write_error_ = 0;   // of standard output
  Machine machine_;
  FakeLogins logins_;
  bool clock_runs_ = false;
  std::ostringstream out_, err_;

 private:
  absl::Time Now() const override {
    if (clock_runs_) now_ += absl::Minutes(1);
    return now_;
  }

  Surroundings MakeSurroundings() {
    return {.connect =
                [this](const std::string& address, const client::CredentialFlags&) {
                  address_ = address;
                  if (no_credentials_.ok()) return coordinator_.Connect();
                  return std::make_unique<client::Connection>(
                      address, client::Credentials::Missing(no_credentials_));
                },
            .why_refused =
                [this](const std::string&, const client::CredentialFlags&) {
                  ++looks_into_refusal_;
                  return refusal_;
                },
            .logins = logins_.Make(),
            .start_local = start_local_,
            .run_trainer = run_trainer_,
            .form_of_samples =
                [](const v1::DataSpec&) {
                  return SampleForm{.shape = {1, 28, 28}, .classes = 10};
                },
            .working_dir = "/home/me",
            .user = "me",
            .machine = machine_,
            .terminal = {.out = out_,
                         .err = err_,
                         .out_is_tty = out_tty_,
                         .err_is_tty = tty_,
                         .columns = 70,
                         .write_error = [this] { return write_error_; }},
            .clock = *this,
            .interrupts = interrupts_,
            .catch_signals = [] {}};
  }

  mutable absl::Time now_ =
      absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 5), absl::UTCTimeZone());

 protected:
  FakeCoordinator coordinator_;  // last: its hooks use the members above
};

}  // namespace dp::ctl
