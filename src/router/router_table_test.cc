#include "router/router_table.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::router {
namespace {

wire::Instance Make(uint64_t id, std::string role, std::string model = "m") {
  wire::Instance instance;
  instance.id = id;
  instance.endpoint = "generate";
  instance.started_unix_ms = static_cast<int64_t>(1000 * id);
  instance.card.name = std::move(model);
  instance.card.role = std::move(role);
  instance.card.max_model_len = 100;
  instance.card.weights_digest = "w";
  instance.card.kv_connector = "NixlConnector";
  return instance;
}

class TableTest : public testing::Test {
 protected:
  RouterTable Table(std::string mode = "round-robin") {
    return RouterTable(
        {}, *MakePicker(mode, [this] { return random_++; }), [this] { return now_; }, metrics_);
  }
  const ModelGroup& Group(const RouterTable& table, std::string_view name = "m") {
    const auto group = table.Find(name);
    EXPECT_TRUE(group.has_value()) << group.error().message;
    return **group;
  }

  Metrics metrics_;
  MonoTime now_{};
  uint64_t random_ = 0;
};

TEST_F(TableTest, TopologyFollowsTheRoles) {
  RouterTable table = Table();
  EXPECT_EQ(table.Find("m").error().code, Code::kUnavailable);
  table.Update(std::vector{Make(1, "prefill")});
  EXPECT_EQ(table.Find("m").error().code, Code::kUnavailable);
  EXPECT_NE(table.Find("m").error().message.find("no decode or aggregated worker"),
            std::string::npos);
  EXPECT_NE(table.Find("m").error().message.find("restarted, try again"), std::string::npos);
  EXPECT_EQ(table.Find("x").error().code, Code::kNotFound);
  EXPECT_EQ(table.Find("x").error().param, "model");
  table.Update(std::vector{Make(1, "prefill"), Make(2, "decode")});
  EXPECT_EQ(Group(table).topology(), Topology::kDisaggregated);
  table.Update(std::vector{Make(2, "decode")});
  EXPECT_EQ(Group(table).topology(), Topology::kDecodeAlone);
  table.Update(std::vector{Make(2, "decode"), Make(3, "agg")});
  EXPECT_EQ(Group(table).topology(), Topology::kAggregated);
  table.Update(std::vector<wire::Instance>{});
  EXPECT_FALSE(table.Find("m").has_value());
}

TEST_F(TableTest, FindsAliasesAndTheOnlyModel) {
  RouterTable table = Table();
  wire::Instance one = Make(1, "agg");
  one.card.aliases = {"other"};
  table.Update(std::vector{one});
  EXPECT_EQ(Group(table, "other").name, "m");
  EXPECT_EQ(Group(table, "").name, "m");
  table.Update(std::vector{one, Make(2, "agg", "n")});
  EXPECT_EQ(table.Find("").error().param, "model");
}

TEST_F(TableTest, RoundRobinTakesTurnsPerRole) {
  RouterTable table = Table();
  table.Update(
      std::vector{Make(1, "prefill"), Make(2, "prefill"), Make(3, "decode"), Make(4, "decode")});
  const ModelGroup& group = Group(table);
  std::vector<uint64_t> order;
  for (int i = 0; i < 4; ++i) {
    order.push_back(table.Pick(group, Role::kPrefill, {})->id());
    order.push_back(table.Pick(group, Role::kDecode, {})->id());
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 3, 2, 4, 1, 3, 2, 4}));
  EXPECT_EQ(table.Pick(group, Role::kDecode, {.except = 3})->id(), 4u);
  EXPECT_EQ(table.Pick(group, Role::kAggregated, {}), nullptr);
}

TEST_F(TableTest, InhibitedWorkersAreTheLastResort) {
  RouterTable table = Table("random");
  table.Update(std::vector{Make(1, "agg"), Make(2, "agg")});
  table.Inhibit(1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(table.Pick(Group(table), Role::kAggregated, {})->id(), 2u);
  table.Inhibit(2);
  EXPECT_NE(table.Pick(Group(table), Role::kAggregated, {}), nullptr);
  now_ += std::chrono::seconds(4);
  std::set<uint64_t> seen;
  for (int i = 0; i < 4; ++i) seen.insert(table.Pick(Group(table), Role::kAggregated, {})->id());
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(TableTest, WorkersThatDisagreeAreKeptOutUntilTheEarliestLeaves) {
  RouterTable table = Table();
  wire::Instance odd = Make(2, "agg");
  odd.card.weights_digest = "v";
  table.Update(std::vector{Make(1, "agg"), odd, Make(3, "agg")});
  EXPECT_EQ(Group(table).Of(Role::kAggregated).size(), 2u);
  EXPECT_NE(table.Workers()[1]->excluded.find("weights_digest is v, but w on worker 1"),
            std::string::npos);
  EXPECT_NE(metrics_.Render().find(
                "tandem_frontend_workers{model=\"m\",role=\"agg\",state=\"excluded\"} 1"),
            std::string::npos);
  table.Update(std::vector{odd, Make(3, "agg")});
  EXPECT_EQ(Group(table).Of(Role::kAggregated).front()->id(), 2u);
  EXPECT_TRUE(table.Workers()[0]->excluded.empty());
  EXPECT_FALSE(table.Workers()[1]->excluded.empty());
}

TEST_F(TableTest, PairsNeedTheSameConnector) {
  RouterTable table = Table();
  wire::Instance decode = Make(2, "decode");
  decode.card.kv_connector = "Other";
  table.Update(std::vector{Make(1, "prefill"), decode});
  const Status pairs = table.CheckPairs(Group(table));
  ASSERT_FALSE(pairs.has_value());
  EXPECT_EQ(pairs.error().code, Code::kIncompatible);
  EXPECT_NE(pairs.error().message.find("NixlConnector"), std::string::npos);
  EXPECT_NE(pairs.error().message.find("Other"), std::string::npos);
  EXPECT_EQ(table.Pick(Group(table), Role::kPrefill, {.paired = true}), nullptr);
  table.Update(std::vector{Make(1, "prefill"), decode, Make(3, "decode")});
  EXPECT_TRUE(table.CheckPairs(Group(table)).has_value());
  const std::string connector = "NixlConnector";
  EXPECT_EQ(table.Pick(Group(table), Role::kDecode, {.connector = &connector})->id(), 3u);
}

TEST_F(TableTest, ContextIsTheSmallestOfTheWorkers) {
  RouterTable table = Table();
  wire::Instance small = Make(2, "agg");
  small.card.max_model_len = 60;
  table.Update(std::vector{Make(1, "agg"), small});
  EXPECT_EQ(Group(table).max_model_len, 60);
}

TEST(Picker, RefusesUnknownModes) {
  const auto picker = MakePicker("kv", [] { return uint64_t{0}; });
  ASSERT_FALSE(picker.has_value());
  EXPECT_EQ(picker.error().param, "--router-mode");
}

}  // namespace
}  // namespace tandem::router
