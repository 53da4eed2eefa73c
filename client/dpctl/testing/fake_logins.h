#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/dpctl/logins.h"

namespace dp::ctl {

// Logins in memory, scripted by a test. One thread. Must outlive what it makes.
class FakeLogins {
 public:
  bool has_home = true;
  absl::Status prepared;             // the answer for each directory
  bool accepts_other_users = false;  // as the latest preparation was told
  std::optional<std::string> line;   // on standard input
  // The answer to the next enrolment, and what was asked for.
  absl::StatusOr<security::Credential> enrolled = absl::UnimplementedError("no enrolment");
  std::vector<std::string> asked;                     // "ADDRESS TOKEN"
  std::map<std::string, security::Credential> saved;  // by directory
  std::vector<std::string> renewed;  // the address, for each look whether it is due

  Logins Make() {
    return {.dir = [this](const std::string& address) -> absl::StatusOr<std::string> {
              if (!has_home) return absl::FailedPreconditionError("no HOME");
              return absl::StrCat("/logins/", address);
            },
            .prepare =
                [this](const std::string&, bool accepts) {
                  accepts_other_users = accepts;
                  return prepared;
                },
            .enrol =
                [this](const std::string& address, const std::string& token, absl::Duration) {
                  asked.push_back(absl::StrCat(address, " ", token));
                  return enrolled;
                },
            .save =
                [this](const std::string& dir, const security::Credential& credential) {
                  saved[dir] = credential;
                  return absl::OkStatus();
                },
            .remove = [this](const std::string& dir) { return saved.erase(dir) > 0; },
            .renew = [this](client::Connection&, const std::string& address,
                            const client::CredentialFlags&) { renewed.push_back(address); },
            .read_line = [this] { return line; }};
  }
};

}  // namespace dp::ctl
