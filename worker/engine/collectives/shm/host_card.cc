#include "worker/engine/collectives/shm/host_card.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "worker/engine/collectives/failure.h"
#include "worker/engine/collectives/shm/shared_segment.h"

namespace dp::engine {
namespace {

constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";
constexpr char kNetwork[] = "/proc/self/ns/net";
constexpr char kTime[] = "/proc/self/ns/time";  // none before Linux 5.6

// Empty if there is none.
std::string NamespaceAt(const char* path) {
  struct stat file;
  if (stat(path, &file) != 0) return "";
  return absl::StrCat(file.st_dev, ":", file.st_ino);
}

// In the order of the text, one a line. Later releases may add lines behind these.
template <typename Card>
auto FieldsOf(Card& card) {
  return std::vector{&card.layout,    &card.kernel, &card.network, &card.user,
                     &card.host_name, &card.socket, &card.token,   &card.why_not};
}

// The first property in which two cards differ, in words; empty if they fit.
std::string Difference(const HostCard& a, const HostCard& b) {
  if (a.layout != b.layout) return "they are of different releases of dp";
  if (a.kernel != b.kernel) return "they run on different hosts";
  if (a.network != b.network) return "they are in different network namespaces";
  if (a.user != b.user) return absl::StrCat("they run as users ", a.user, " and ", b.user);
  return "";
}

std::string PlacesOf(const std::vector<int>& ranks, const HostCard& card) {
  return absl::StrCat(RankNames(ranks), ranks.size() == 1 ? " is on " : " are on ", card.host_name);
}

absl::Status CannotShare(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("the ranks cannot share memory: ", why));
}

}  // namespace

std::string Encode(const HostCard& card) {
  std::vector<std::string> lines;
  for (const std::string* field : FieldsOf(card))
    lines.push_back(absl::StrReplaceAll(*field, {{"\n", " "}}));
  return absl::StrJoin(lines, "\n");
}

absl::StatusOr<HostCard> DecodeHostCard(absl::string_view text) {
  HostCard card;
  const std::vector<std::string*> fields = FieldsOf(card);
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (lines.size() < fields.size())
    return absl::InternalError(
        absl::StrCat("a host's card has ", lines.size(), " lines, not ", fields.size()));
  for (size_t i = 0; i < fields.size(); ++i) *fields[i] = lines[i];
  return card;
}

absl::Status CheckOneHost(const std::vector<HostCard>& cards) {
  for (size_t r = 0; r < cards.size(); ++r)
    if (!cards[r].why_not.empty())
      return CannotShare(
          absl::StrCat("rank ", r, " on ", cards[r].host_name, ": ", cards[r].why_not));
  std::vector<int> with_rank_0, apart;
  for (int r = 0; r < static_cast<int>(cards.size()); ++r) {
    const std::string difference = Difference(cards[0], cards[r]);
    if (difference.empty()) {
      with_rank_0.push_back(r);
    } else if (apart.empty() || Difference(cards[apart[0]], cards[r]).empty()) {
      apart.push_back(r);
    }
  }
  if (apart.empty()) return absl::OkStatus();
  const HostCard& other = cards[apart[0]];
  return CannotShare(absl::StrCat(PlacesOf(with_rank_0, cards[0]), ", ", PlacesOf(apart, other),
                                  ", and ", Difference(cards[0], other)));
}

HostCard ThisHost() {
  HostCard card;
  char name[256] = "";
  (void)gethostname(name, sizeof(name) - 1);  // for people: an empty name will do
  card.host_name = name;
  card.user = absl::StrCat(geteuid());
  card.layout = kSegmentLayout;
  std::ifstream(kBootId) >> card.kernel;
  card.network = NamespaceAt(kNetwork);
  if (card.kernel.empty() || card.network.empty())
    card.why_not = absl::StrCat("cannot read ", card.kernel.empty() ? kBootId : kNetwork);
  absl::StrAppend(&card.kernel, " ", NamespaceAt(kTime));
  return card;
}

}  // namespace dp::engine
