#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/holder_view.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/printable.h"
#include "dp/v1/access.grpc.pb.h"

namespace dp::ctl {
namespace {

class Revoke final : public Command {
 public:
  const char* name() const override { return "revoke"; }
  const char* summary() const override {
    return "End the access of a person or worker, and their calls in flight";
  }
  const char* example() const override { return "dpctl revoke ann\n  dpctl revoke worker/node7"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("NAME", holder_, "A person, or worker/NAME")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    const HolderName holder = ParseHolder(holder_);
    v1::RevokeRequest request;
    request.set_name(holder.name);
    request.set_worker(holder.worker);
    DP_ASSIGN_OR_RETURN(const v1::RevokeResponse response,
                        context.Call(&v1::Access::Stub::Revoke, request));
    switch (context.flags().format) {
      case Format::kName:
        context.out() << Printable(holder_) << '\n';
        break;
      case Format::kJson: {
        JsonWriter json(context.out());
        json.BeginObject();
        json.Field("name", holder.name);
        json.Field("kind", KindOf(holder.worker));
        json.EndObject();
        break;
      }
      case Format::kTable:
        context.out() << "access of " << KindOf(holder.worker) << ' ' << Printable(holder.name)
                      << " is revoked\n";
    }
    if (response.unknown()) {
      context.err() << "dpctl: no " << KindOf(holder.worker) << " named '" << Printable(holder.name)
                    << "' was on record; check the name ("
                    << (holder.worker ? "'dpctl workers'"
                                      : "'dpctl access'; a worker is worker/NAME")
                    << ")\n";
    }
    return kSuccess;
  }

 private:
  std::string holder_;
};

}  // namespace

std::unique_ptr<Command> MakeRevoke() { return std::make_unique<Revoke>(); }

}  // namespace dp::ctl
