#include <string>

#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/flag_types.h"
#include "client/dpctl/verbs/job_store.h"
#include "client/dpctl/verbs/verbs.h"
#include "client/dpctl/view/json_writer.h"

namespace dp::ctl {
namespace {

class StoreWatch final : public Command {
 public:
  const char* name() const override { return "watch"; }
  const char* summary() const override { return "Print a key's value at each change"; }
  const char* example() const override { return "dpctl store watch 7 steps --for 1m"; }

  void DefineFlags(CLI::App& app) override {
    app.add_option("JOB", job_, "Id, or name (the latest job of that name)")->required();
    app.add_option("KEY", key_, "The key")->required();
    AddNumber(app, "--since", since_, "Only changes after this version");
    AddDuration(app, "--for", for_, "Stop after this long, with exit code 101");
  }

  // Runs until the generation is over, which is no failure.
  absl::StatusOr<int> Run(Context& context) override {
    DP_ASSIGN_OR_RETURN(const auto opened, JobStore::Open(context, job_));
    const absl::Time until = context.surroundings().clock.Now() + for_;
    uint64_t since = since_;
    while (true) {
      const auto seen =
          opened->store().Watch(key_, since, until - context.surroundings().clock.Now());
      if (absl::IsDeadlineExceeded(seen.status())) return kNotFinished;
      if (absl::IsAborted(seen.status())) return End(seen.status(), context);
      if (!seen.ok()) return seen.status();
      Print(*seen, context);
      since = seen->version;
    }
  }

 private:
  static int End(const absl::Status& over, Context& context) {
    context.err() << "dpctl: " << over.message() << '\n';
    return kSuccess;
  }

  static void Print(const Store::Versioned& seen, Context& context) {
    if (context.flags().format == Format::kJson) {
      JsonWriter json(context.out(), JsonWriter::Style::kOneLine);
      json.BeginObject();
      json.Field("version", seen.version);
      seen.value ? json.Field("value", *seen.value) : json.NullField("value");
      json.EndObject();
    } else {
      context.out() << seen.version << ' ' << (seen.value ? KeyText(*seen.value) : "(absent)")
                    << '\n';
    }
    context.out().flush();
  }

  std::string job_, key_;
  uint64_t since_ = 0;
  absl::Duration for_ = absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<Command> MakeStoreWatch() { return std::make_unique<StoreWatch>(); }

}  // namespace dp::ctl
