#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/join_token.h"
#include "client/dpctl/verbs/verbs.h"
#include "dp/v1/access.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

// More is no limit in practice; 0 says that there is none.
constexpr int kUsesMax = 1'000'000;

class Token final : public Command {
 public:
  const char* name() const override { return "token"; }
  const char* summary() const override {
    return "Make a token with which workers join, or a person logs in";
  }
  const char* example() const override {
    return "dpctl token\n  dpctl token worker node7 --uses 1\n  dpctl token user ann -o name";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("ROLE", role_, "worker, admin, user or viewer; default: worker")
        ->check(CLI::IsMember({"worker", "admin", "user", "viewer"}));
    app.add_option("NAME", name_, "Of the person; without it, a worker chooses its own")
        ->check(WhyEmpty);
    AddDuration(app, "--valid-for", valid_for_, "How long; at most a week (168h)")
        ->default_str("1h");
    app.add_option("--uses", uses_,
                   "How many certificates; default: 1 for a person, any number (0) for workers")
        ->check(CLI::Range(0, kUsesMax))
        ->type_name("NUMBER");
  }

  absl::StatusOr<int> Run(Context& context) override {
    const bool worker = role_ == "worker";
    if (!worker && name_.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a token for the role ", role_, " needs a name: dpctl token ", role_, " NAME"));
    }
    if (!worker && uses_ == 0) {
      return absl::InvalidArgumentError(
          "--uses 0 means any number, which is for workers only; give 1 or more");
    }
    v1::CreateTokenRequest request;
    request.set_role(role_);
    request.set_name(name_);
    request.set_uses(uses_.value_or(worker ? 0 : 1));
    *request.mutable_valid_for() = ToProto(valid_for_);
    DP_ASSIGN_OR_RETURN(const v1::CreateTokenResponse response,
                        context.Call(&v1::Access::Stub::CreateToken, request));
    PrintJoinToken({role_, name_, response.token(), FromProto(response.expires_at())}, context);
    return kSuccess;
  }

 private:
  std::string role_ = "worker";
  std::string name_;
  absl::Duration valid_for_ = absl::Hours(1);
  std::optional<int> uses_;
};

}  // namespace

std::unique_ptr<Command> MakeToken() { return std::make_unique<Token>(); }

}  // namespace dp::ctl
