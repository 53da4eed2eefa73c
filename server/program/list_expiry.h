#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace dp::server {

// A revocation list that counts.
struct RevocationList {
  std::string file;    // its path
  std::string issuer;  // the authority's name, in DER
  absl::Time ends;     // when its next one is due; InfiniteFuture: never
};

// Decides when the log warns of lists. It does so once within a day of a list's end, then when the
// list has expired, and each hour from there on. OpenSSL trusts no certificate of an authority
// whose latest list has expired, and says so to nobody. Pure. Not thread-safe.
class RevocationListWatch {
 public:
  static constexpr absl::Duration kSoon = absl::Hours(24);
  static constexpr absl::Duration kAgain = absl::Hours(1);

  struct Warning {
    RevocationList list;
    bool expired = false;  // else it will within kSoon

    bool operator==(const Warning& other) const {
      return list.file == other.list.file && list.ends == other.list.ends &&
             expired == other.expired;
    }
  };

  // The warnings that are due, with all lists of this moment.
  std::vector<Warning> Due(const std::vector<RevocationList>& lists, absl::Time now);

 private:
  // The latest warning about the lists of one authority.
  struct Said {
    absl::Time ends;
    bool expired = false;
    absl::Time at;
  };
  std::map<std::string, Said> said_;  // by issuer, of those that are there
};

}  // namespace dp::server
