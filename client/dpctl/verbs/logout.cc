#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

class Logout final : public Command {
 public:
  const char* name() const override { return "logout"; }
  const char* summary() const override { return "Remove the certificate that a login has saved"; }
  const char* example() const override { return "dpctl logout --coordinator 10.0.0.1:7070"; }

  void DefineFlags(CLI::App&) override {}

  absl::StatusOr<int> Run(Context& context) override {
    const Logins& logins = context.surroundings().logins;
    const std::string& address = context.flags().coordinator;
    DP_ASSIGN_OR_RETURN(const std::string dir, logins.dir(address));
    DP_ASSIGN_OR_RETURN(const bool removed, logins.remove(dir));
    if (removed) {
      context.out() << "logged out of " << address << '\n';
    } else {
      context.err() << "dpctl: there was no login for " << address << '\n';
    }
    return kSuccess;
  }
};

}  // namespace

std::unique_ptr<Command> MakeLogout() { return std::make_unique<Logout>(); }

}  // namespace dp::ctl
