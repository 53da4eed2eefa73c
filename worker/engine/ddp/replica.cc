#include "worker/engine/ddp/replica.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"

namespace dp::engine {
namespace {

// One line a parameter: "conv2d0.weight 32x1x3x3 at 0".
std::string Describe(const ParameterLayout& layout) {
  std::string lines;
  for (const Parameter& p : layout.parameters)
    absl::StrAppend(&lines, p.name, " ", model::ShapeText(p.shape), " at ", p.offset, "\n");
  return lines;
}

// Gathers one text from every rank; lengths may differ.
absl::StatusOr<std::vector<std::string>> GatherTexts(Group& ranks, const std::string& text) {
  Group& group = ranks.on_host();
  const uint64_t length = text.size();
  std::vector<uint64_t> lengths(group.size());
  DP_RETURN_IF_ERROR(
      group
          .AllGather(
              {DataType::kUint8, {reinterpret_cast<const uint8_t*>(&length), sizeof(length)}},
              {reinterpret_cast<uint8_t*>(lengths.data()), lengths.size() * sizeof(length)})
          ->Wait());
  const size_t width = *std::max_element(lengths.begin(), lengths.end());
  std::vector<uint8_t> padded(width), gathered(width * group.size());
  std::copy(text.begin(), text.end(), padded.begin());
  DP_RETURN_IF_ERROR(
      group.AllGather(absl::MakeConstSpan(padded), absl::MakeSpan(gathered))->Wait());
  std::vector<std::string> texts;
  for (int r = 0; r < group.size(); ++r) {
    const auto begin = gathered.begin() + r * width;
    texts.emplace_back(begin, begin + lengths[r]);
  }
  return texts;
}

// Errors: FailedPrecondition for the first line in which a text differs from rank 0's.
absl::Status CheckLayoutsAgree(absl::string_view kind, const std::vector<std::string>& texts) {
  std::vector<std::vector<std::string>> lines;  // by rank
  size_t count = 0;
  for (const std::string& text : texts) {
    lines.push_back(absl::StrSplit(text, '\n', absl::SkipEmpty()));
    count = std::max(count, lines.back().size());
  }
  auto line = [&](size_t rank, size_t i) {
    return i < lines[rank].size() ? lines[rank][i] : absl::StrCat("no such ", kind);
  };
  for (size_t i = 0; i < count; ++i) {
    std::string others;
    for (size_t r = 1; r < texts.size(); ++r)
      if (line(r, i) != line(0, i)) absl::StrAppend(&others, "; rank ", r, " has ", line(r, i));
    if (!others.empty())
      return absl::FailedPreconditionError(
          absl::StrCat("replicas differ in ", kind, " ", i, ": rank 0 has ", line(0, i), others));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReplicasAgree(Group& group, absl::string_view kind, const std::string& lines) {
  DP_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherTexts(group, lines));
  return CheckLayoutsAgree(kind, texts);
}

absl::Status AlignReplicas(Group& group, const ParameterLayout& layout, absl::Span<float> values) {
  DP_CHECK(static_cast<int64_t>(values.size()) == layout.size);
  if (group.size() == 1) return absl::OkStatus();
  DP_RETURN_IF_ERROR(CheckReplicasAgree(group, "parameter", Describe(layout)));
  return group
      .Broadcast({DataType::kUint8,
                  {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)}},
                 0)
      ->Wait();
}

}  // namespace dp::engine
