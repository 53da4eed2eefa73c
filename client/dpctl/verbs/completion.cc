#include "client/dpctl/verbs/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/dpctl/exit_code.h"
#include "client/dpctl/verbs/verbs.h"

namespace dp::ctl {
namespace {

struct Word {
  std::string text;
  std::string help;
};

// The words that may follow a command.
struct Place {
  std::string path;  // the command, as "store ls"
  std::vector<Word> words;
};

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void AddFlags(const CLI::App& app, std::vector<Word>& words) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      words.push_back({"--" + name, option->get_description()});
}

void AddPlaces(const CLI::App& app, const std::string& path, std::vector<Place>& places) {
  Place place{path, {}};
  for (const CLI::App* command : CommandsOf(app))
    place.words.push_back({command->get_name(), command->get_description()});
  // Each command also takes the flags of its parents.
  for (const CLI::App* each = &app; each != nullptr; each = each->get_parent())
    AddFlags(*each, place.words);
  places.push_back(std::move(place));
  for (const CLI::App* command : CommandsOf(app)) {
    const std::string separator = path.empty() ? "" : " ";
    AddPlaces(*command, absl::StrCat(path, separator, command->get_name()), places);
  }
}

std::vector<Place> PlacesOf(const CLI::App& app) {
  std::vector<Place> places;
  AddPlaces(app, "", places);
  return places;
}

// Reads the commands before the cursor into `verb`. Both shells use the same code, but count
// differently.
std::string FindVerb(const std::vector<Place>& places, const char* first, const char* words,
                     const char* cursor) {
  std::vector<std::string> paths;
  for (const Place& place : places)
    if (!place.path.empty()) paths.push_back(absl::StrCat("'", place.path, "'"));
  return absl::StrCat("  local verb= i\n  for ((i = ", first, "; i < ", cursor, "; i++)); do\n",
                      "    case \"${verb:+$verb }${", words, "[i]}\" in\n      ",
                      absl::StrJoin(paths, "|"), ") verb=\"${verb:+$verb }${", words,
                      "[i]}\" ;;\n    esac\n  done\n");
}

// In single quotes, on one line; the first colon ends the word.
std::string ZshWord(const Word& word) {
  const std::string help = absl::StrReplaceAll(word.help, {{"'", "'\\''"}, {"\n", " "}});
  return absl::StrCat("'", word.text, ":", help, "'");
}

class Completion final : public Command {
 public:
  const char* name() const override { return "completion"; }
  const char* summary() const override { return "Print a script that lets a shell complete"; }
  const char* example() const override {
    return "dpctl completion bash > ~/.local/share/bash-completion/completions/dpctl";
  }

  void DefineFlags(CLI::App& app) override {
    app_ = &app;
    app.add_option("SHELL", shell_, "bash or zsh")
        ->check(CLI::IsMember({"bash", "zsh"}))
        ->required();
  }

  absl::StatusOr<int> Run(Context& context) override {
    const CLI::App& dpctl = *app_->get_parent();
    context.out() << (shell_ == "bash" ? BashCompletion(dpctl) : ZshCompletion(dpctl));
    return kSuccess;
  }

 private:
  CLI::App* app_ = nullptr;
  std::string shell_;
};

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  const std::vector<Place> places = PlacesOf(app);
  std::string script =
      "# Completes dpctl in bash; printed by `dpctl completion bash`.\n_dpctl() {\n";
  absl::StrAppend(&script, FindVerb(places, "1", "COMP_WORDS", "COMP_CWORD"),
                  "  local words=\n  case \"$verb\" in\n");
  for (const Place& place : places) {
    const std::string words = absl::StrJoin(
        place.words, " ", [](std::string* out, const Word& word) { out->append(word.text); });
    absl::StrAppend(&script, "    '", place.path, "') words='", words, "' ;;\n");
  }
  // If nothing fits, as for a job file, bash completes file names.
  return absl::StrCat(script,
                      "  esac\n"
                      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
                      "}\ncomplete -o default -F _dpctl dpctl\n");
}

std::string ZshCompletion(const CLI::App& app) {
  const std::vector<Place> places = PlacesOf(app);
  std::string script =
      "#compdef dpctl\n# Completes dpctl in zsh; printed by `dpctl completion zsh`.\n_dpctl() {\n";
  absl::StrAppend(&script, FindVerb(places, "2", "words", "CURRENT"),
                  "  local -a entries\n  case \"$verb\" in\n");
  for (const Place& place : places) {
    const std::string words =
        absl::StrJoin(place.words, "\n        ",
                      [](std::string* out, const Word& word) { out->append(ZshWord(word)); });
    absl::StrAppend(&script, "    '", place.path, "')\n      entries=(\n        ", words,
                    "\n      ) ;;\n");
  }
  return absl::StrCat(script, "  esac\n  _describe dpctl entries || _files\n}\n_dpctl \"$@\"\n");
}

std::unique_ptr<Command> MakeCompletion() { return std::make_unique<Completion>(); }

}  // namespace dp::ctl
