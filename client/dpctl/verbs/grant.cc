#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/join_token.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/printable.h"
#include "dp/v1/access.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class Grant final : public Command {
 public:
  const char* name() const override { return "grant"; }
  const char* summary() const override { return "Give a person a role, and print how they log in"; }
  const char* example() const override { return "dpctl grant user ann"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("ROLE", role_, "admin, user or viewer")
        ->check(CLI::IsMember({"admin", "user", "viewer"}))
        ->required();
    app.add_option("NAME", name_, "Of the person")->required();
    AddDuration(app, "--valid-for", valid_for_,
                "How long they may log in with the token; at most a week (168h)")
        ->default_str("1h");
  }

  absl::StatusOr<int> Run(Context& context) override {
    v1::GrantRequest request;
    request.set_role(role_);
    request.set_name(name_);
    *request.mutable_valid_for() = ToProto(valid_for_);
    DP_ASSIGN_OR_RETURN(const v1::GrantResponse response,
                        context.Call(&v1::Access::Stub::Grant, request));
    if (context.flags().format == Format::kTable) {
      context.out() << "role " << role_ << " is granted to " << Printable(name_)
                    << (response.token().empty() ? ", who calls with:\n" : ", who logs in with:\n");
    }
    PrintJoinToken({role_, name_, response.token(), FromProto(response.expires_at())}, context);
    return kSuccess;
  }

 private:
  std::string role_;
  std::string name_;
  absl::Duration valid_for_ = absl::Hours(1);
};

}  // namespace

std::unique_ptr<Command> MakeGrant() { return std::make_unique<Grant>(); }

}  // namespace dp::ctl
