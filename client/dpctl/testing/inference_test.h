#pragma once

#include <fstream>
#include <string>

#include "base/testing/scratch_dir.h"
#include "client/dpctl/testing/dpctl_test.h"
#include "dp/v1/inference.pb.h"
#include "google/protobuf/util/json_util.h"

namespace dp::ctl {

// Runs commands whose work a dp-trainer does, with a fake that notes the request and gives one
// answer.
class InferenceTest : public DpctlTest {
 protected:
  InferenceTest() {
    std::ofstream(File("w.safetensors")) << "weights";
    run_trainer_ = [this](const std::string& verb, const std::string& request) {
      verb_ = verb;
      json_ = request;
      return answer_;
    };
  }

  std::string File(const std::string& name) const { return dir_.path() / name; }

  // The request of the latest command.
  template <typename Message>
  const Message& Request() {
    static Message request;
    request.Clear();
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(json_, &request).ok()) << json_;
    return request;
  }

  // A train job that is over. Empty weights: none are on record.
  v1::Job& AddTraining(uint64_t id, const std::string& weights) {
    v1::Job& job = AddJob(id,
                          "state: JOB_STATE_SUCCEEDED "
                          "spec { name: 'a' train { data { dir: '/data' } } } "
                          "ranks { rank: 0 worker: 'w1' host: 'node1' }");
    if (weights.empty()) return job;
    job.mutable_weights()->set_path(weights);
    job.mutable_weights()->set_sha256("abc");
    return job;
  }

  dp::ScratchDir dir_;
  std::string answer_ = "{}";
  std::string verb_;
  std::string json_;
};

}  // namespace dp::ctl
