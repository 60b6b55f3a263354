// Options, memory sizing, transfer parameters: what comes from outside.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/memory_budget.h"
#include "engine/transfer_json.h"
#include "engine/worker_options.h"

namespace tandem::engine {
namespace {

TEST(WorkerOptions, KvTransferConfig) {
  const auto config = ParseKvTransferConfig(
      R"({"kv_connector":"NixlConnector","kv_role":"kv_both","kv_buffer_device":"cpu",
          "kv_connector_extra_config":{"kv_lease_duration":12.5,"backends":["UCX"]}})");
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->kv_connector, "NixlConnector");
  EXPECT_EQ(config->lease, std::chrono::milliseconds(12500));
  for (const char* silent : {"{}", R"({"kv_connector":null})", R"({"engine_id":"e"})"}) {
    const auto taken = ParseKvTransferConfig(silent);
    ASSERT_TRUE(taken.has_value()) << taken.error().message;
    EXPECT_EQ(taken->kv_connector, "NixlConnector");
    EXPECT_EQ(taken->kv_role, "kv_both");
  }
  for (const char* bad : {"", "[]", R"({"kv_connector":"NixlConnector"})",
                          R"({"kv_connector":"NixlConnector","kv_role":"both"})",
                          R"({"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"})",
                          R"({"kv_connector":7,"kv_role":"kv_both"})",
                          R"({"kv_connector":"NixlConnector","kv_role":"kv_both","kv_conector":1})",
                          R"({"kv_connector":"NixlConnector","kv_role":"kv_both",
            "kv_connector_extra_config":{"kv_lease_duration":0}})"}) {
    const auto refused = ParseKvTransferConfig(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "--kv-transfer-config");
  }
}

TEST(WorkerOptions, Roles) {
  EXPECT_EQ(*ParseRole("pd"), Role::kAggregated);
  EXPECT_EQ(*ParseRole("prefill"), Role::kPrefill);
  EXPECT_FALSE(ParseRole("both").has_value());
  EXPECT_EQ(RoleName(Role::kDecode), "decode");
}

TEST(WorkerOptions, ValidationNamesTheFlag) {
  WorkerOptions options;
  options.engine = EngineKind::kMock;
  EXPECT_TRUE(Validate(options).has_value());
  const auto param = [](auto change) {
    WorkerOptions wrong;
    wrong.engine = EngineKind::kMock;
    change(wrong);
    const Status status = Validate(wrong);
    return status ? std::string() : status.error().param;
  };
  EXPECT_EQ(param([](auto& o) { o.block_size = 0; }), "--block-size");
  EXPECT_EQ(param([](auto& o) { o.max_num_batched_tokens = 100; }), "--max-num-batched-tokens");
  EXPECT_EQ(param([](auto& o) { o.cpu_share = 1.5; }), "--cpu-share");
  EXPECT_EQ(param([](auto& o) { o.role = Role::kPrefill; }), "--kv-transfer-config");
  EXPECT_EQ(param([](auto& o) {
              o.role = Role::kPrefill;
              o.kv_transfer = *ParseKvTransferConfig("{}");
            }),
            "");
  EXPECT_EQ(param([](auto& o) { o.mock.block_bytes = 8; }), "--mock-block-bytes");
  EXPECT_EQ(param([](auto& o) { o.dtype = "fp8"; }), "--dtype");
  EXPECT_EQ(param([](auto& o) { o.kv_cache_dtype = "fp8"; }), "--kv-cache-dtype");
  EXPECT_EQ(param([](auto& o) { o.kv_cache_dtype = "float16"; }), "--kv-cache-dtype");  // of a mock
  EXPECT_EQ(param([](auto& o) { o.engine = EngineKind::kNative; }), "--model");
}

TEST(WorkerOptions, KvCacheDtypeFollowsDtypeUnlessGiven) {
  using model::KvDtype;
  const auto chosen = [](std::string dtype, std::string kv_cache_dtype) {
    WorkerOptions options;
    options.dtype = std::move(dtype);
    options.kv_cache_dtype = std::move(kv_cache_dtype);
    return KvCacheDtype(options).value();
  };
  EXPECT_EQ(chosen("auto", "auto"), KvDtype::kFloat16);
  EXPECT_EQ(chosen("bfloat16", "auto"), KvDtype::kFloat16);
  EXPECT_EQ(chosen("float32", "auto"), KvDtype::kFloat32);
  EXPECT_EQ(chosen("float32", "float16"), KvDtype::kFloat16);
  EXPECT_EQ(chosen("auto", "bfloat16"), KvDtype::kBfloat16);
  EXPECT_EQ(chosen("auto", "int8_per_token_head"), KvDtype::kInt8);
  EXPECT_EQ(chosen("float16", "float32"), KvDtype::kFloat32);
}

TEST(MemoryBudget, ExplicitFlagsThenTheLesserOfUsefulAndAffordable) {
  WorkerOptions options;
  options.max_num_seqs = 4;
  options.num_gpu_blocks_override = 40;
  auto budget = PlanKv(options, 8192, 1000, 1'000'000'000);
  EXPECT_EQ(budget->blocks, 40);
  EXPECT_EQ(budget->max_model_len, 640);
  EXPECT_TRUE(budget->clamped);
  options.num_gpu_blocks_override = 0;
  options.kv_cache_memory_bytes = 100'500;
  EXPECT_EQ(PlanKv(options, 8192, 1000, 1)->blocks, 100);
  options.kv_cache_memory_bytes = 0;
  budget = PlanKv(options, 8192, 1000, 1'000'000'000);
  EXPECT_EQ(budget->blocks, 4 * 512);
  EXPECT_FALSE(budget->clamped);
  options.workers_on_host = 2;
  EXPECT_EQ(PlanKv(options, 8192, 1000, 4'000'000)->blocks, 1000);
  options.max_model_len = 100;
  EXPECT_EQ(PlanKv(options, 8192, 1000, 1'000'000'000)->max_model_len, 100);
  options.max_model_len = 9000;
  EXPECT_FALSE(PlanKv(options, 8192, 1000, 1'000'000'000).has_value());
  options.max_model_len = 0;
  EXPECT_EQ(PlanKv(options, 8192, 1000, 100).error().code, Code::kResourceExhausted);
}

class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-root-XXXXXX").string();
    root_ = std::string(mkdtemp(name.data())) + "/";
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& path() const { return root_; }

 private:
  std::string root_;
};

TEST(MemoryBudget, ControlGroupsLimitWhatIsAvailable) {
  const FakeRoot root;
  root.Write("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   8000000 kB\n");
  EXPECT_EQ(AvailableMemory(root.path()), int64_t{8000000} * 1024);
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root.Write("sys/fs/cgroup/a/memory.current", "400000\n");
  root.Write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 100000\n");
  root.Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.Write("sys/fs/cgroup/a/b/memory.current", "400000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 700000);
  root.Write("proc/self/cgroup", "9:cpu,memory:/x\n0::/\n");
  root.Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500000\n");
  root.Write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "600000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 0);
}

TEST(MemoryBudget, Bytes) {
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(FormatBytes(1 << 20), "1.0 MiB");
}

TEST(TransferJson, WhatIsWrittenIsRead) {
  xfer::TransferParams params;
  params.engine_id = "e\"1";
  params.incarnation = 0xFFEE'DDCC'BBAA'9988;
  params.lease = 0x8000'0000'0000'0001;
  params.request_id = "r";
  params.host = "10.0.0.1";
  params.port = 5600;
  params.blocks = {{1, 2}, {70000, int64_t{1} << 53}};
  params.num_tokens = 21;
  params.lease_duration = std::chrono::milliseconds(1500);
  const auto parsed = ParseTransfer(WriteTransfer(params));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->leg, Leg::kDecode);
  EXPECT_EQ(parsed->remote->engine_id, params.engine_id);
  EXPECT_EQ(parsed->remote->incarnation, params.incarnation);
  EXPECT_EQ(parsed->remote->lease, params.lease);
  EXPECT_EQ(parsed->remote->blocks, params.blocks);
  EXPECT_EQ(parsed->remote->num_tokens, 21);
  EXPECT_EQ(parsed->remote->lease_duration, params.lease_duration);
  EXPECT_EQ(ParseTransfer("")->leg, Leg::kWhole);
  EXPECT_EQ(ParseTransfer("{}")->leg, Leg::kWhole);
  EXPECT_EQ(ParseTransfer(R"({"do_remote_decode":true})")->leg, Leg::kPrefill);
}

TEST(TransferJson, EveryDamagedFieldIsRefused) {
  xfer::TransferParams params;
  params.engine_id = "e";
  params.incarnation = params.lease = 1;
  params.request_id = "r";
  params.host = "h";
  params.port = 1;
  params.blocks = {{1, 2}};
  params.num_tokens = 3;
  const std::string good = WriteTransfer(params);
  ASSERT_TRUE(ParseTransfer(good).has_value());
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("remote_engine_id":"e")", R"("remote_engine_id":5)"},
           {R"("remote_port":1)", R"("remote_port":0)"},
           {R"("remote_port":1)", R"("remote_port":"1")"},
           {R"("lease":"0000000000000001")", R"("lease":"1")"},
           {R"("lease":"0000000000000001")", R"("lease":"000000000000000g")"},
           {R"([[1]])", R"([[1],[2]])"},
           {R"([[1]])", R"([[-1]])"},
           {R"([[1]])", R"([[4294967296]])"},
           {R"([[1]])", R"([])"},
           {R"("generations":[2])", R"("generations":[2,3])"},
           {R"("generations":[2])", R"("generations":[-2])"},
           {R"("remote_num_tokens":3)", R"("remote_num_tokens":0)"},
           {R"("lease_seconds":30)", R"("lease_seconds":-1)"},
           {R"("tp_size":1)", R"("tp_size":2)"}}) {
    const auto refused = ParseTransfer(with(from, to));
    ASSERT_FALSE(refused.has_value()) << to;
    EXPECT_EQ(refused.error().param, "kv_transfer_params") << to;
  }
}

}  // namespace
}  // namespace tandem::engine
