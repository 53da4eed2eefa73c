#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/identity_view.h"
#include "client/dpctl/view/printable.h"
#include "client/dpctl/view/time_text.h"
#include "dp/v1/access.grpc.pb.h"
#include "proto/convert/time.h"

namespace dp::ctl {
namespace {

class WhoAmI final : public Command {
 public:
  const char* name() const override { return "whoami"; }
  const char* summary() const override { return "Show as whom the coordinator knows you"; }
  const char* example() const override { return "dpctl whoami\n  dpctl whoami -o json | jq .role"; }

  void DefineFlags(CLI::App&) override {}

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const v1::WhoAmIResponse response,
                        context.Call(&v1::Access::Stub::WhoAmI, {}));
    IdentityShown identity{response.role(), response.name()};
    if (response.has_expires_at()) identity.expires_at = FromProto(response.expires_at());
    switch (context.flags().format) {
      case Format::kName:
        context.out() << Printable(identity.name) << '\n';
        break;
      case Format::kJson: {
        JsonWriter json(context.out());
        WriteIdentity(identity, json);
        break;
      }
      case Format::kTable:
        PrintText(identity, context.out());
    }
    return kSuccess;
  }

 private:
  static void PrintText(const IdentityShown& identity, std::ostream& out) {
    out << identity.role;
    if (!identity.name.empty()) out << ' ' << Printable(identity.name);
    if (identity.expires_at < absl::InfiniteFuture()) {
      out << ", with a certificate until " << TimeText(identity.expires_at);
    }
    out << '\n';
  }
};

}  // namespace

std::unique_ptr<Command> MakeWhoAmI() { return std::make_unique<WhoAmI>(); }

}  // namespace dp::ctl
