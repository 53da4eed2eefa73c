#pragma once

#include <string>

#include "client/dpctl/testing/dpctl_test.h"

namespace dp::ctl {

// Submits programs that stand on the command line, as `dpctl submit -- ./train`.
class ProgramTest : public DpctlTest {
 protected:
  // The spec of the job that `dpctl submit` makes of these words.
  const v1::JobSpec& Submitted(const std::string& words) {
    const Result result = Dpctl("submit " + words);
    EXPECT_EQ(result.code, 0) << result.err;
    return coordinator_.jobs.rbegin()->second.spec();
  }
};

}  // namespace dp::ctl
