#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dp::server {

// Copies of the revocation lists in the directory of --crl-dir. OpenSSL would also take
// certificates from a directory of lists (HASH.0), and trust each as an authority. The copies hold
// lists alone (HASH.rN), and nobody else can write them. Not thread-safe; owned by IdentityDir.
class RevocationLists {
 public:
  // `to` is the directory of the copies, in one that is closed to others. Without
  // `accept_other_users`, a directory or list that others can write is an error.
  RevocationLists(std::string from, std::filesystem::path to, bool accept_other_users);

  // Copies lists that have changed, and removes copies of lists whose names are gone. A list that
  // cannot be read or used keeps its former copy. Logs each file that holds a certificate, once.
  // Errors: FailedPrecondition the directory or a list cannot be read, or a list is damaged.
  // PermissionDenied others can write a list, or a copy cannot be written.
  absl::Status Refresh();

  // Comments for a file of PEM, which change with the copies.
  std::string text() const;
  const std::filesystem::path& copies() const { return to_; }

 private:
  absl::StatusOr<std::set<std::string>> NamesIn() const;
  absl::Status Copy(const std::string& name);
  void LogIfCertificate(const std::string& name);
  absl::Status RemoveCopiesBut(const std::set<std::string>& names);

  std::string from_;
  std::filesystem::path to_;
  bool accept_other_users_;
  // By name, what changes with the file: of all files, and of lists when they were copied.
  std::map<std::string, std::string> seen_, copied_;
};

}  // namespace dp::server
