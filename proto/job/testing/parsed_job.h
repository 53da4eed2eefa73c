#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/job/job_file.h"
#include "proto/job/job_check.h"
#include "proto/job/job_defaults.h"

// Jobs of tests, with their defaults filled in. Tests write jobs as users do, as job files with
// overrides, because a check also says where a wrong field stands.

namespace dp {

inline constexpr char kMinimal[] = R"(apiVersion: dp/v1
kind: Job
name: minimal
train:
  data: {dir: /data}
  model: {preset: mlp}
  optimizer: {sgd: {learningRate: 0.1}}
)";

inline std::optional<SampleForm> Image28(const v1::DataSpec&) {
  return SampleForm{.shape = {1, 28, 28}, .classes = 10};
}

inline client::JobFile Parsed(const std::string& text,
                              const std::vector<std::string>& overrides = {}) {
  auto job = client::ParseJobFile(text, "job.yaml", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  FillDefaults(job->source, job->spec);
  return *std::move(job);
}

inline absl::Status CheckJob(const client::JobFile& job,
                             const FormOfSamples& form_of_samples = Image28) {
  return CheckJob(job.spec, job.source, form_of_samples);
}

inline std::string ErrorSetting(const std::string& override, const std::string& text = kMinimal) {
  const absl::Status status = CheckJob(Parsed(text, {override}), Image28);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << override << ": " << status;
  return std::string(status.message());
}

}  // namespace dp
