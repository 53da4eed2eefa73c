#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/job_state.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/worker_view.h"
#include "dp/v1/workers.grpc.pb.h"

namespace dp::ctl {
namespace {

class Undrain final : public Command {
 public:
  const char* name() const override { return "undrain"; }
  const char* summary() const override { return "Give a worker ranks again"; }
  const char* example() const override { return "dpctl undrain node7"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("WORKER", worker_, "Its name")->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    v1::UndrainRequest request;
    request.set_worker(worker_);
    DP_ASSIGN_OR_RETURN(const v1::UndrainResponse response,
                        context.Call(&v1::Workers::Stub::Undrain, request));
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      WriteWorker(response.worker(), json);
    } else if (context.flags().format == Format::kName) {
      context.out() << response.worker().name() << '\n';
    } else {
      context.out() << "worker " << response.worker().name() << " is "
                    << NameOf(response.worker().state()) << '\n';
    }
    return kSuccess;
  }

 private:
  std::string worker_;
};

}  // namespace

std::unique_ptr<Command> MakeUndrain() { return std::make_unique<Undrain>(); }

}  // namespace dp::ctl
