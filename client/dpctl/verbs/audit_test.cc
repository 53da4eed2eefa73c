#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AuditTest : public DpctlTest {
 protected:
  AuditTest() {
    AddEvents(R"(
        events { number: 4 at { seconds: 1767323004 } job: 7 kind: "cancelled" actor: "user ann" }
        events { number: 5 at { seconds: 1767323005 } job: 7 kind: "placed" text: "on w" }
        next_since: 5)");
    AddEvents("next_since: 900");
    AddEvents(R"(
        events { number: 901 at { seconds: 1767323009 } kind: "joined" text: "worker w" }
        events { number: 902 at { seconds: 1767323009 } worker: "w" kind: "drained" text: "disks"
                 actor: "admin root" }
        next_since: 902)");
    AddEvents("next_since: 902");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(refusals { at { seconds: 1767323007 } caller: "user bob" peer: "ipv4:10.0.0.9:5"
                      rpc: "Jobs.Cancel" reason: "job 7 belongs to ann" count: 3 }
           refusals { at { seconds: 1767323008 } caller: "a stranger" peer: "ipv4:10.0.0.9:6"
                      rpc: "Jobs.List" reason: "no credential" count: 1 })",
        &coordinator_.access.refusals));
  }
  void AddEvents(const std::string& text) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text, &coordinator_.event_pages.emplace_back()));
  }
};

TEST_F(AuditTest, ActsAndRefusedCallsAreInOrderOfTime) {
  const Result result = Dpctl("audit");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "AT                         WHO         WHAT       OBJECT       DETAIL\n"
            "2026-01-02T03:03:24+00:00  user ann    cancelled  job 7        -\n"
            "2026-01-02T03:03:27+00:00  user bob    refused    Jobs.Cancel  job 7 belongs to ann; "
            "from ipv4:10.0.0.9:5, 3 calls\n"
            "2026-01-02T03:03:28+00:00  a stranger  refused    Jobs.List    no credential; from "
            "ipv4:10.0.0.9:6\n"
            "2026-01-02T03:03:29+00:00  -           joined     access       worker w\n"
            "2026-01-02T03:03:29+00:00  admin root  drained    worker w     disks\n");
}

TEST_F(AuditTest, TheLatestLinesMayBeAskedFor) {
  EXPECT_EQ(Dpctl("audit -n 2 --no-headers").out,
            "2026-01-02T03:03:29+00:00  -           joined   access    worker w\n"
            "2026-01-02T03:03:29+00:00  admin root  drained  worker w  disks\n");
}

TEST_F(AuditTest, RefusedCallsMayBeShownAlone) {
  const std::string out = Dpctl("audit --refusals").out;
  EXPECT_THAT(out, HasSubstr("Jobs.Cancel"));
  EXPECT_THAT(out, Not(HasSubstr("drained")));
  EXPECT_TRUE(coordinator_.event_watches.empty());
}

TEST_F(AuditTest, JsonHasEachPartByItself) {
  const std::string json = Dpctl("audit -o json").out;
  EXPECT_THAT(json, HasSubstr("{\n  \"items\": [\n    {\n"
                              "      \"at\": \"2026-01-02T03:03:24+00:00\",\n"
                              "      \"actor\": \"user ann\",\n      \"kind\": \"cancelled\",\n"
                              "      \"job\": 7,\n      \"worker\": null,\n"
                              "      \"rpc\": null,\n      \"peer\": null,\n"
                              "      \"count\": 1,\n      \"text\": null\n    },\n"));
  EXPECT_THAT(json, HasSubstr("\"actor\": \"user bob\",\n      \"kind\": \"refused\",\n"
                              "      \"job\": null,\n      \"worker\": null,\n"
                              "      \"rpc\": \"Jobs.Cancel\",\n"
                              "      \"peer\": \"ipv4:10.0.0.9:5\",\n      \"count\": 3,\n"
                              "      \"text\": \"job 7 belongs to ann\"\n"));
  EXPECT_EQ(Dpctl("audit -o name").code, 2);
}

TEST_F(AuditTest, WhoeverMayNotListRefusedCallsGetsTheEventsAndANote) {
  coordinator_.access.denied = absl::PermissionDeniedError("user ann may not call it");
  const Result result = Dpctl("audit");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("user ann    cancelled"));
  EXPECT_THAT(result.out, Not(HasSubstr("refused")));
  EXPECT_EQ(result.err, "dpctl: refused calls are not shown: user ann may not call it\n");
}

TEST_F(AuditTest, WithoutEventsARightThatIsMissingIsAnError) {
  coordinator_.access.denied = absl::PermissionDeniedError("user ann may not call it");
  EXPECT_EQ(Dpctl("audit --refusals").code, 1);
  EXPECT_EQ(err_.str(), "dpctl: user ann may not call it\n");
}

}  // namespace
}  // namespace dp::ctl
