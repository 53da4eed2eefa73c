#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/security/certificate.h"
#include "base/security/token.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/identity_view.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/time_text.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::ctl {
namespace {

class Login final : public Command {
 public:
  const char* name() const override { return "login"; }
  const char* summary() const override {
    return "Exchange a token for a certificate, with which dpctl then calls the coordinator";
  }
  const char* example() const override {
    return "dpctl login --coordinator 10.0.0.1:7070 < token-file";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("--token", token_,
                   "The token, from 'dpctl grant'; by default the first line of standard input, "
                   "where no list of processes shows it")
        ->check(WhyEmpty);
  }

  absl::StatusOr<int> Run(Context& context) override {
    const Logins& logins = context.surroundings().logins;
    const std::string& address = context.flags().coordinator;
    DP_ASSIGN_OR_RETURN(const std::string dir, logins.dir(address));
    DP_ASSIGN_OR_RETURN(const std::string token, Token(logins));
    // The exchange may use the token up.
    DP_RETURN_IF_ERROR(logins.prepare(dir, context.flags().credentials.accept_other_users));
    DP_ASSIGN_OR_RETURN(const security::Credential credential,
                        logins.enrol(address, token, context.flags().timeout));
    DP_ASSIGN_OR_RETURN(IdentityShown identity, HolderOf(credential));
    DP_RETURN_IF_ERROR(logins.save(dir, credential));
    if (!context.flags().credentials.dir.empty()) {
      context.err() << "dpctl: --credentials or DP_CREDENTIALS names another credential; without "
                       "it dpctl uses this login\n";
    }
    context.ConnectTo(address, dir);
    TakeGrantedRole(context, identity);
    Print(identity, context);
    return kSuccess;
  }

 private:
  // Errors: InvalidArgument there is none, or it is a worker's.
  absl::StatusOr<std::string> Token(const Logins& logins) const {
    const std::optional<std::string> given = token_.has_value() ? token_ : logins.read_line();
    if (!given.has_value()) {
      return absl::InvalidArgumentError(
          "there is no token; write it to standard input, as 'dpctl login < FILE', or give "
          "--token TOKEN");
    }
    std::string token(absl::StripAsciiWhitespace(*given));
    if (token.empty()) {
      return absl::InvalidArgumentError(
          "there is no token: the first line of standard input is empty; give --token TOKEN");
    }
    const auto claims = security::ReadJoinToken(token);  // a malformed one is left to enrol
    if (claims.ok() && claims->identity.role == security::Role::kWorker) {
      return absl::InvalidArgumentError(
          "the token is for a worker; give it to dp-worker --join, and ask an administrator for "
          "one that 'dpctl grant' prints");
    }
    return token;
  }

  static absl::StatusOr<IdentityShown> HolderOf(const security::Credential& credential) {
    DP_ASSIGN_OR_RETURN(const security::Certificate certificate,
                        security::Certificate::FromPem(credential.chain));
    DP_ASSIGN_OR_RETURN(const security::Identity identity, certificate.identity());
    return IdentityShown{std::string(security::NameOf(identity.role)), identity.name,
                         certificate.not_after()};
  }

  // A grant counts more than the role in the certificate. If the call fails, the next command shows
  // the role.
  static void TakeGrantedRole(Context& context, IdentityShown& identity) {
    const auto known =
        context.coordinator().Call(&v1::Access::Stub::WhoAmI, {}, context.flags().timeout);
    if (!known.ok() || known->role().empty() || known->role() == identity.role) return;
    context.err() << "dpctl: the token was for " << identity.role << ' ' << Printable(identity.name)
                  << ", but an administrator has granted the role " << known->role()
                  << ", which counts\n";
    identity.role = known->role();
  }

  static void Print(const IdentityShown& identity, Context& context) {
    switch (context.flags().format) {
      case Format::kName:
        context.out() << Printable(identity.name) << '\n';
        return;
      case Format::kJson: {
        JsonWriter json(context.out());
        return WriteIdentity(identity, json);
      }
      case Format::kTable:
        context.out() << "logged in to " << context.flags().coordinator << " as " << identity.role
                      << ' ' << Printable(identity.name) << " until "
                      << TimeText(identity.expires_at) << '\n';
    }
  }

  std::optional<std::string> token_;
};

}  // namespace

std::unique_ptr<Command> MakeLogin() { return std::make_unique<Login>(); }

}  // namespace dp::ctl
