#include <string>

#include "base/data/convert.h"
#include "base/status.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

class DataConvert final : public Command {
 public:
  const char* name() const override { return "convert"; }
  const char* summary() const override {
    return "Write samples to NPY or IDX, or a text to tokens";
  }
  const char* example() const override {
    return "dpctl data convert table.csv table.npy\n"
           "  dpctl data convert images.npy train-images-idx3-ubyte\n"
           "  dpctl data convert book.txt book.bin --bpe-vocab vocab.json --bpe-merges merges.txt";
  }

  void DefineFlags(CLI::App& app) override {
    app.add_option("FROM", from_, "IDX, NPY or CSV file, a.npz#NAME, or a text")->required();
    app.add_option("TO", to_, "New file: .npy, NAME-idxN-TYPE, or .bin for tokens")->required();
    app.add_option("--to", format_, "tokens: whatever the new file's name")
        ->check(CLI::IsMember({"tokens"}))
        ->type_name("FORMAT");
    app.add_option("--bpe-vocab", options_.bpe_vocabulary,
                   "vocab.json of the encoding whose tokens to write; default: bytes")
        ->type_name("FILE");
    app.add_option("--bpe-merges", options_.bpe_merges, "Its merges.txt")->type_name("FILE");
  }

  bool NeedsCoordinator() const override { return false; }

  absl::StatusOr<int> Run(Context&) override {
    options_.to_tokens = !format_.empty();
    DP_RETURN_IF_ERROR(AsUsage(data::Convert(from_, to_, options_)));
    return kSuccess;
  }

 private:
  std::string from_, to_, format_;
  data::ConvertOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeDataConvert() { return std::make_unique<DataConvert>(); }

}  // namespace dp::ctl
