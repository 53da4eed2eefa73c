#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/job_store.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"
#include "client/dpctl/view/terminal_text.h"

namespace dp::ctl {
namespace {

class StoreGet final : public Command {
 public:
  const char* name() const override { return "get"; }
  const char* summary() const override { return "Print the value of a key, byte by byte"; }
  const char* example() const override { return "dpctl store get 7 gloo/0/addresses | xxd"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_option("KEY", key_, "The key")->required();
    AddDuration(app, "--wait", wait_,
                "Wait up to this long for the key; exit code 101 if it does not come");
  }

  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const auto opened, JobStore::Open(context, job_));
    const absl::StatusOr<std::string> value = opened->store().Get(key_, wait_);
    if (absl::IsDeadlineExceeded(value.status())) return Missing(opened->job(), context);
    if (!value.ok()) return value.status();
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out());
      json.BeginObject();
      json.Field("key", KeyText(key_));
      json.Field("value", *value);
      json.EndObject();
    } else {
      const bool terminal = context.surroundings().terminal.out_is_tty;
      context.out() << (terminal ? TerminalText(*value) : *value);
    }
    return kSuccess;
  }

 private:
  int Missing(uint64_t job, Context& context) const {
    context.err() << "dpctl: the store of job " << job << " has no key '" << KeyText(key_)
                  << "'; 'dpctl store ls " << job << "' lists all\n";
    return wait_ > absl::ZeroDuration() ? kNotFinished : kNotFound;
  }

  std::string job_, key_;
  absl::Duration wait_ = absl::ZeroDuration();
};

}  // namespace

std::unique_ptr<Command> MakeStoreGet() { return std::make_unique<StoreGet>(); }

}  // namespace dp::ctl
