#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/testing/scratch_dir.h"
#include "server/core/coordinator.h"
#include "server/journal/convert_state.h"
#include "server/journal/sqlite_journal.h"
#include "tests/journals/life.h"

// A journal of each release and of each journal format, beside the state that its replay must give.
// `--write=VERSION` writes the files of a release. `--rewrite` writes the states anew: read the
// difference before you commit it. The first line changes whenever the digest covers more. Any
// other change means that this release interprets the past differently.

namespace dp::journals {

bool rewrite = false;
std::string write_version;

namespace {

namespace fs = std::filesystem;

const fs::path kDirectory = DP_JOURNALS_DIR;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> Journals() {
  std::vector<fs::path> journals;
  for (const auto& entry : fs::directory_iterator(kDirectory)) {
    if (entry.path().extension() == ".sqlite") journals.push_back(entry.path());
  }
  std::sort(journals.begin(), journals.end());
  return journals;
}

fs::path StateFile(fs::path journal) { return journal.replace_extension(".state"); }

// The state as a snapshot stores it. Protobuf omits zeros, so a field that a later release adds
// does not show. Messages worded by the coordinator are left out, since their wording may improve.
std::string Describe(const core::Coordinator& coordinator) {
  const std::vector<std::string> pieces =
      server::ToPieces(coordinator.state(), /*piece_bytes=*/size_t{1} << 30);
  journal::Snapshot snapshot;
  DP_CHECK(pieces.size() == 1 && snapshot.ParseFromString(pieces[0]));
  for (journal::SavedJob& job : *snapshot.mutable_jobs()) {
    job.mutable_world()->clear_closing_reason();
    if (job.has_failure()) job.mutable_failure()->clear_message();
  }
  for (journal::SavedEvent& event : *snapshot.mutable_events()) event.clear_text();
  return absl::StrCat("# digest ", absl::Hex(coordinator.StateDigest(), absl::kZeroPad16), "\n",
                      snapshot.DebugString());
}

core::Coordinator Replay(const fs::path& file) {
  core::Coordinator coordinator;
  const auto journal = server::SqliteJournal::Open(file.string());
  EXPECT_TRUE(journal.ok()) << journal.status();
  if (!journal.ok()) return coordinator;
  const absl::Status replayed = (*journal)->Replay(
      [&](core::State state) { coordinator = core::Coordinator(std::move(state)); },
      [&](const core::Command& command) {
        const core::Outcome outcome = coordinator.Apply(command);
        EXPECT_TRUE(outcome.status.ok() && outcome.journal) << outcome.status;
      });
  EXPECT_TRUE(replayed.ok()) << replayed;
  return coordinator;
}

// Writes ALife() as a journal. The first two thirds become a snapshot.
void Write(const fs::path& file) {
  const std::vector<core::Command> life = ALife();
  const size_t taken = life.size() * 2 / 3;
  core::Coordinator coordinator;
  for (size_t i = 0; i < taken; ++i) coordinator.Apply(life[i]);
  auto journal = server::SqliteJournal::Open(file.string());
  ASSERT_TRUE(journal.ok()) << journal.status();
  ASSERT_TRUE((*journal)->Replay([](core::State) {}, [](const core::Command&) {}).ok());
  while ((*journal)->compacting()) ASSERT_TRUE((*journal)->Maintain().ok());
  ASSERT_TRUE((*journal)->Append({life.data(), taken}).ok());
  (*journal)->TakeSnapshot(coordinator.state());
  while ((*journal)->compacting()) ASSERT_TRUE((*journal)->Maintain().ok());
  ASSERT_TRUE((*journal)->Append({life.data() + taken, life.size() - taken}).ok());
}

class JournalTest : public testing::TestWithParam<fs::path> {};
// Before the first release there are no journals.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(JournalTest);

TEST_P(JournalTest, AnEarlierReleasesJournalReplaysToItsState) {
  const ScratchDir scratch;
  const fs::path copy = scratch.path() / "journal.sqlite";
  fs::copy_file(GetParam(), copy);
  const std::string mark = GetParam().string() + "-mark";  // earlier releases wrote none
  if (fs::exists(mark)) fs::copy_file(mark, copy.string() + "-mark");
  const std::string state = Describe(Replay(copy));
  if (rewrite) std::ofstream(StateFile(GetParam())) << state;
  EXPECT_EQ(state, ReadFile(StateFile(GetParam())));
}

TEST(LifeTest, ItHasEveryKindOfCommand) {
  std::set<size_t> kinds;
  for (const core::Command& command : ALife()) kinds.insert(command.action.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<core::AnyAction>);
}

TEST(LifeTest, AllOfItIsAccepted) {
  core::Coordinator coordinator;
  for (const core::Command& command : ALife()) {
    const core::Outcome outcome = coordinator.Apply(command);
    EXPECT_TRUE(outcome.status.ok() && outcome.journal)
        << "kind " << command.action.index() << ": " << outcome.status;
  }
}

std::string NameOf(const testing::TestParamInfo<fs::path>& journal) {
  std::string name = "v" + journal.param.stem().string();
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Releases, JournalTest, testing::ValuesIn(Journals()), NameOf);

}  // namespace

// Writes the journal and the state of this release.
void WriteRelease() {
  const fs::path file = kDirectory / (write_version + ".sqlite");
  fs::remove(file);
  Write(file);
  std::ofstream(StateFile(file)) << Describe(Replay(file));
}

}  // namespace dp::journals

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--rewrite") dp::journals::rewrite = true;
    if (argument.rfind("--write=", 0) == 0) {
      dp::journals::write_version = argument.substr(8);
      dp::journals::WriteRelease();
      return 0;
    }
  }
  return RUN_ALL_TESTS();
}
