#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "dp/v1/metrics.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace dp::trainer {

// Reads metrics from a file of JSON lines. Each line must parse.
inline std::vector<v1::Metric> ReadMetrics(const std::string& path) {
  std::vector<v1::Metric> metrics;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    v1::Metric& metric = metrics.emplace_back();
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &metric).ok()) << line;
  }
  return metrics;
}

}  // namespace dp::trainer
