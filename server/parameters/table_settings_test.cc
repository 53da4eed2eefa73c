#include "server/parameters/table_settings.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::server {
namespace {

using ::testing::HasSubstr;

v1::TableSettings Valid() {
  v1::TableSettings settings;
  settings.set_mode(v1::TABLE_MODE_ASYNC);
  settings.set_ranks(3);
  settings.set_publish_every(100);
  settings.set_size(4);
  settings.mutable_schedule()->set_steps_of_epoch(10);
  settings.mutable_schedule()->set_steps_total(100);
  return settings;
}

TEST(TableSettingsTest, EachNumberOfStepsHasABound) {
  using Change = std::function<void(v1::TableSettings&, int64_t)>;
  const std::pair<std::string, Change> fields[] = {
      {"publish_every", [](auto& to, int64_t n) { to.set_publish_every(n); }},
      {"schedule.steps_of_epoch",
       [](auto& to, int64_t n) { to.mutable_schedule()->set_steps_of_epoch(n); }},
      {"schedule.steps_total",
       [](auto& to, int64_t n) { to.mutable_schedule()->set_steps_total(n); }},
      {"schedule.warmup_steps",
       [](auto& to, int64_t n) { to.mutable_schedule()->set_warmup_steps(n); }},
      {"schedule.cosine.steps",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_cosine()->set_steps(n); }},
      {"schedule.linear.steps",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_linear()->set_steps(n); }},
      {"schedule.step.every_steps",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_step()->set_every_steps(n); }},
      {"schedule.step.every_epochs",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_step()->set_every_epochs(n); }},
      {"schedule.multi_step.at_steps",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_multi_step()->add_at_steps(n); }},
      {"schedule.multi_step.at_epochs",
       [](auto& to, int64_t n) { to.mutable_schedule()->mutable_multi_step()->add_at_epochs(n); }}};
  constexpr int64_t kMax = int64_t{1} << 40;
  for (const auto& [field, change] : fields) {
    SCOPED_TRACE(field);
    v1::TableSettings settings = Valid();
    change(settings, kMax);
    EXPECT_TRUE(OptionsOf(settings).ok()) << OptionsOf(settings).status();
    for (const int64_t wrong : {int64_t{-1}, kMax + 1, std::numeric_limits<int64_t>::max()}) {
      settings = Valid();
      change(settings, wrong);
      const absl::Status status = OptionsOf(settings).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status));
      EXPECT_THAT(status.message(),
                  HasSubstr(absl::StrCat("settings.", field, ": ", wrong, " is not from ")));
      EXPECT_THAT(status.message(), HasSubstr(absl::StrCat(" to ", kMax)));
    }
  }
}

// Files from before the schedule was in them.
TEST(TableSettingsTest, TheScheduleOfAnOldFileFollowsFromItsSteps) {
  parameters::StoredTable stored;
  *stored.mutable_settings() = Valid();
  stored.mutable_state()->set_steps(11);
  stored.add_pushed(5);
  EXPECT_EQ(ProgressOf(stored).training_steps, 3);
  EXPECT_EQ(ProgressOf(stored).gradients_since, 2);
  EXPECT_EQ(ProgressOf(stored).pushed, std::vector<uint64_t>{5});
  stored.mutable_settings()->set_mode(v1::TABLE_MODE_SYNC);
  EXPECT_EQ(ProgressOf(stored).training_steps, 11);
  EXPECT_EQ(ProgressOf(stored).gradients_since, 0);
  stored.set_training_steps(7);
  stored.set_gradients_since(1);
  EXPECT_EQ(ProgressOf(stored).training_steps, 7);
  EXPECT_EQ(ProgressOf(stored).gradients_since, 1);
}

TEST(TableSettingsTest, NumbersAreFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  v1::TableSettings settings = Valid();
  settings.mutable_optimizer()->mutable_sgd()->set_learning_rate(nan);
  EXPECT_THAT(OptionsOf(settings).status().message(),
              HasSubstr("settings.optimizer: nan is no finite number"));
  settings = Valid();
  settings.mutable_schedule()->mutable_step()->set_factor(nan);
  settings.mutable_schedule()->mutable_step()->set_every_steps(1);
  EXPECT_THAT(OptionsOf(settings).status().message(), HasSubstr("settings.schedule: nan"));
  settings = Valid();
  settings.add_parameters()->set_momentum(nan);
  EXPECT_THAT(OptionsOf(settings).status().message(), HasSubstr("settings.parameters: nan"));
}

}  // namespace
}  // namespace dp::server
