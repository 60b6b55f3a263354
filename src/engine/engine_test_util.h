// What the engine's tests share: a request's answer, collected.
#ifndef TANDEM_ENGINE_ENGINE_TEST_UTIL_H_
#define TANDEM_ENGINE_ENGINE_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/worker_options.h"
#include "rt/cancel.h"

namespace tandem::engine {

inline constexpr std::string_view kPrefillParams =
    R"({"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null})";

// One request to an engine. Keep it until it is done.
struct TestCall {
  std::vector<std::vector<wire::TokenId>> text;  // by choice
  wire::GenerateItem first;
  std::string params;  // kv_transfer_params of a prefill leg
  std::optional<Status> end;
  rt::CancelSource cancel;

  void Start(Engine& engine, wire::GenerateRequest request, MonoTime deadline = kNever) {
    EngineSink sink;
    sink.on_item = [this](wire::GenerateItem item) {
      EXPECT_FALSE(end.has_value()) << "an item after the end";
      const auto choice = static_cast<size_t>(item.choice);
      if (text.size() <= choice) text.resize(choice + 1);
      if (text[0].empty()) first = item;
      text[choice].insert(text[choice].end(), item.tokens.begin(), item.tokens.end());
      if (!item.kv_transfer_params.empty()) params = item.kv_transfer_params;
    };
    sink.on_done = [this](Status status) {
      EXPECT_FALSE(end.has_value()) << "ended twice";
      end = std::move(status);
    };
    engine.Submit(std::move(request), deadline, cancel.Token(), std::move(sink));
  }
  bool Done() const { return end.has_value(); }
  bool Ok() const { return end.has_value() && end->has_value(); }
  Code EndCode() const { return !end || *end ? Code::kOk : end->error().code; }
};

inline KvTransferConfig TestTransfer(Duration lease = std::chrono::seconds(30)) {
  KvTransferConfig config;
  config.kv_connector = "NixlConnector";
  config.kv_role = "kv_both";
  config.lease = lease;
  return config;
}

inline void ExpectQuiet(const Engine& engine) {
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.waiting_for_kv, 0);
  EXPECT_EQ(stats.leases, 0);
  EXPECT_EQ(stats.pins, 0);
  EXPECT_EQ(stats.remote_holds, 0);
  EXPECT_EQ(stats.blocks_free, stats.blocks_total);
}

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_ENGINE_TEST_UTIL_H_
