#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/security/certificate.h"
#include "base/security/revocations.h"
#include "server/program/list_expiry.h"

namespace dp::server {

// Copies of the revocation lists in the directory of --crl-dir, whatever their files are called.
// OpenSSL finds lists by the hash of their issuer, and numbers without a gap, and passes over all
// others in silence. It would also take certificates from such a directory (HASH.0), and trust each
// as an authority. The copies hold lists alone, named as OpenSSL needs it, and nobody else can
// write them. Not thread-safe; owned by IdentityDir.
class RevocationLists {
 public:
  // `to` is the directory of the copies, in one that is closed to others. Without
  // `accept_other_users`, a directory or list that others can write is an error.
  RevocationLists(std::string from, std::filesystem::path to, bool accept_other_users);

  // Makes the copies those of the lists that are there now. A file that cannot be read or used
  // keeps its former lists. Which files have held a list is kept beside the copies, for the next
  // start. Logs each file that holds a certificate, or no list, once.
  // Errors: FailedPrecondition the directory or a list cannot be read, or a list is damaged or not
  // valid yet. Also that the one of `authorities` with its issuer's name has not signed it.
  // PermissionDenied others can write a list. Those of the system if a copy cannot be written.
  absl::Status Refresh(const std::vector<security::Certificate>& authorities, absl::Time now);

  // Comments for a file of PEM, which change once the copies have.
  const std::string& text() const { return text_; }
  const std::filesystem::path& copies() const { return to_; }
  // The lists that count, and whom they name.
  std::vector<RevocationList> in_force() const;
  const std::shared_ptr<security::Revocations>& revocations() const { return revocations_; }

 private:
  struct OneList {
    std::string hash;  // of its issuer, as OpenSSL's names of files begin
    std::string pem;
    RevocationList about;
    security::Revocations::Keys names;
  };
  // A file, as it was when its lists were last taken over.
  struct File {
    std::string stamp;
    std::vector<OneList> lists;
  };

  std::filesystem::path HoldersFile() const;
  std::string TextOfFiles() const;
  // Whether a file that holds no list is an error.
  bool MustBeList(const std::string& name, const std::string& text) const;
  // Notes which files hold lists. Errors: those of the system.
  absl::Status NoteHolders(const std::set<std::string>& names);
  absl::StatusOr<std::set<std::string>> NamesIn() const;
  absl::StatusOr<std::vector<OneList>> Read(const std::string& name,
                                            const std::vector<security::Certificate>& authorities,
                                            absl::Time now) const;
  void LogIfIgnored(const std::string& name) const;
  // Writes the copies that differ, and removes those that are not needed.
  absl::Status WriteCopies();

  std::string from_;
  std::filesystem::path to_;
  bool accept_other_users_;
  std::map<std::string, std::string> seen_;    // by name, what changes with the file
  std::map<std::string, File> files_;          // by name, of those with lists
  std::set<std::string> holders_;              // names of files that have held a list
  bool changed_ = true;                        // since the copies were written
  std::string text_;                           // of the copies
  std::string authorities_;                    // against which they were checked
  std::map<std::string, std::string> copied_;  // by the name of the copy
  std::shared_ptr<security::Revocations> revocations_;
};

}  // namespace dp::server
