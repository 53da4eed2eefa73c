#include "server/access/caller.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using security::Role;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Caller With(Role role, bool role_must_be_granted = false) {
  return {.kind = Caller::Kind::kCertificate,
          .identity = {role, "ann"},
          .role_must_be_granted = role_must_be_granted};
}

TEST(CallerTest, AnExpiredCertificateIsReplacedWhereItCameFrom) {
  EXPECT_THAT(CertificateExpired(With(Role::kUser)).message(), HasSubstr("'dpctl token'"));
  EXPECT_THAT(CertificateExpired(With(Role::kWorker)).message(), HasSubstr("join again"));
  EXPECT_THAT(CertificateExpired(With(Role::kViewer, /*role_must_be_granted=*/true)).message(),
              AllOf(HasSubstr("of person ann expired at"),
                    HasSubstr("; renew it where it was made"), Not(HasSubstr("dpctl token"))));
}

}  // namespace
}  // namespace dp::server
