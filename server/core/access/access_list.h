#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/field_list.h"
#include "base/security/identity.h"

namespace dp::core {

// A decision of the coordinator about one holder of certificates: a person, or a worker.
struct Holder {
  // The role of a person; absent: that of the certificate.
  std::optional<security::Role> role = {};
  // Certificates made until then do not count any more.
  absl::Time revoked_at = absl::InfinitePast();
  // When they last joined or logged in after a revocation.
  absl::Time joined_at = absl::InfinitePast();

  using Fields = FieldList<&Holder::role, &Holder::revoked_at, &Holder::joined_at>;

  bool joined_again() const { return joined_at > revoked_at; }
};

// A join token that was used, until it expires.
struct UsedToken {
  int uses = 0;
  absl::Time expires_at;

  using Fields = FieldList<&UsedToken::uses, &UsedToken::expires_at>;
};

// The decisions about who may do what in the cluster. Certificates say the rest. Not
// thread-safe; owned by the Coordinator.
class AccessList {
 public:
  // People and workers that the list has room for; a certificate of anyone else still counts.
  static constexpr size_t kHoldersMax = 100'000;
  // How many of them may be workers with given names. Whoever has a join token can use this room
  // up, and must leave some for revocations.
  static constexpr size_t kNamesGivenMax = 90'000;
  // Names for workers of one host; each is looked for behind all others.
  static constexpr int kNamesOfHostMax = 1'000;
  // Tokens in use at a time.
  static constexpr size_t kTokensMax = 10'000;

  // All that the list can be rebuilt from. Workers have names of their own: a person and a worker
  // may share one.
  struct Contents {
    std::map<std::string, Holder> people;
    std::map<std::string, Holder> workers;
    std::map<std::string, UsedToken> tokens;  // by id
  };

  AccessList() = default;
  explicit AccessList(Contents contents) : contents_(std::move(contents)) {}

  // Gives a person a role from now on, whatever role their certificates hold. Certificates that
  // were revoked stay so. Returns whether anything changed.
  // Errors: InvalidArgument the role is none of people; ResourceExhausted the list is full.
  absl::StatusOr<bool> Grant(const std::string& name, security::Role role);
  // From now on no certificate of this identity counts that was made until then.
  // Errors: ResourceExhausted the list is full.
  absl::Status Revoke(const security::Identity& identity, absl::Time made_until);
  // Notes that the holder gets a new certificate. No-op unless their access was ever revoked.
  void NoteJoin(const security::Identity& identity, absl::Time at);
  // Uses a token once more. Forgets tokens that have expired.
  // Errors: FailedPrecondition it was used so often before; ResourceExhausted too many tokens.
  absl::Status UseToken(const std::string& id, int uses_max, absl::Time expires_at, absl::Time at);

  // A name for a worker on this host that has none: the first of HOST, HOST-2, ... that was not
  // noted, and that is not `taken`. A daemon keeps its name as long as its certificate, so nobody
  // else may get it meanwhile.
  // Errors: ResourceExhausted too many names were given out.
  absl::StatusOr<std::string> FreeName(const std::string& host,
                                       absl::FunctionRef<bool(const std::string&)> taken) const;
  // Precondition: FreeName has returned it.
  void NoteName(const std::string& name) { contents_.workers[name]; }

  // The role of the holder of a certificate made at that time.
  // Errors: Unauthenticated the certificate is revoked.
  absl::StatusOr<security::Role> RoleOf(const security::Identity& certified,
                                        absl::Time made_at) const;
  // Whether a join token for this identity counts that was made at that time.
  // Errors: Unauthenticated the holder's access was revoked since.
  absl::Status CheckToken(const security::Identity& identity, absl::Time made_at) const;
  // Whether the holder was given a role here.
  bool HasRole(const security::Identity& identity) const;
  // Whether certificates of this identity were ever revoked.
  bool WasRevoked(const security::Identity& identity) const;
  // When a certificate that is made now must say it was made, at the earliest.
  absl::Time ValidAfter(const security::Identity& identity) const;

  const Contents& contents() const { return contents_; }

 private:
  const Holder* Find(const security::Identity& identity) const;
  absl::StatusOr<Holder*> Add(const security::Identity& identity);

  Contents contents_;
};

}  // namespace dp::core
