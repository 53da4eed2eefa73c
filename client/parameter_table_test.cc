#include "client/parameter_table.h"

#include <memory>
#include <vector>

#include "client/testing/in_process.h"
#include "dp/v1/parameters.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dp::client {
namespace {

using ::testing::HasSubstr;

// A table that asks for gradient `next`.
class FakeTable final : public v1::Parameters::Service {
 public:
  uint64_t next = 1;
  bool open = true;  // else calls fail until the rank opens it, and then again
  v1::PullValuesResponse pulled;
  uint64_t published = 0;  // the number of the latest PublishTable

 private:
  grpc::Status Opened() const {
    return open ? grpc::Status::OK : ToGrpc(absl::FailedPreconditionError("not open"));
  }
  grpc::Status OpenTable(grpc::ServerContext*, const v1::OpenTableRequest*,
                         v1::OpenTableResponse* response) override {
    response->set_next(next);
    return grpc::Status::OK;
  }
  grpc::Status PullValues(grpc::ServerContext*, const v1::PullValuesRequest*,
                          grpc::ServerWriter<v1::PullValuesResponse>* writer) override {
    if (open) writer->Write(pulled);
    return Opened();
  }
  grpc::Status PublishTable(grpc::ServerContext*, const v1::PublishTableRequest* request,
                            v1::PublishTableResponse*) override {
    published = request->number();
    return Opened();
  }
};

class ParameterTableTest : public ::testing::Test {
 protected:
  std::unique_ptr<ParameterTable> Table(const v1::TableSettings& settings = {}) {
    auto table = std::make_unique<ParameterTable>(
        ParameterTable::Options{
            .job = 7, .generation = 2, .settings = settings, .detect_within = absl::Seconds(4)},
        *connection_, pause_);
    EXPECT_TRUE(table->Open().ok());
    return table;
  }

  FakeTable fake_;
  InProcess server_{fake_};
  std::unique_ptr<Connection> connection_ = server_.Connect();
  Pause pause_;
};

TEST_F(ParameterTableTest, TheGradientsOfAFormerGenerationArePublished) {
  fake_.next = 5;
  EXPECT_TRUE(Table()->Publish(/*close=*/true).ok());
  EXPECT_EQ(fake_.published, 4u);
}

// Nothing is kept of a former generation. To ask again would not end.
TEST_F(ParameterTableTest, ATableThatLacksWhatNobodyKeepsIsAnError) {
  fake_.next = 5;
  const auto table = Table();
  fake_.next = 3;
  fake_.open = false;
  const absl::Status pulled = table->Pull(4, {}).status();
  EXPECT_EQ(pulled.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(pulled.message(),
              HasSubstr("job 7: the table asks for gradient 3 of rank 0, which has pushed 4 and "
                        "keeps 0: a state that was durable is gone"));
  EXPECT_EQ(table->Publish(/*close=*/true).status(), pulled);
}

TEST_F(ParameterTableTest, ARankThatIsAheadNamesWhoIsBehindAndTheRemedies) {
  v1::TableSettings settings;
  settings.set_mode(v1::TABLE_MODE_BOUNDED);
  settings.set_max_staleness(3);
  fake_.pulled.add_missing(2);
  fake_.pulled.add_missing_at(5);
  const auto table = Table(settings);
  const absl::Status late = table->Pull(9, {}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_EQ(late.message(),
            "rank 0 is at 9, and has waited 4s: rank 2 is at 5, 4 steps behind; raise maxStaleness "
            "(3) or detectWithin");
  EXPECT_THAT(table->missing(), testing::ElementsAre(2));
}

}  // namespace
}  // namespace dp::client
