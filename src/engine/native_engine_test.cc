// The native engine on a tiny model: the text of a request does not depend on the path it took, and
// each case shows that the path was taken.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/engine_test_util.h"
#include "engine/loaded_engine.h"
#include "rt/real_runtime.h"

namespace tandem::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Made by tests/tools/prepare_test_data.py.
std::string CachedModel(const std::string& name) {
  const char* set = std::getenv("TANDEM_TEST_CACHE");
  const std::filesystem::path cache =
      set != nullptr && *set != '\0'
          ? std::filesystem::path(set)
          : std::filesystem::path(std::getenv("HOME")) / ".cache" / "tandem";
  return (cache / "models" / name).string();
}

WorkerOptions NativeWorker(Role role) {
  WorkerOptions options;
  options.model_path = CachedModel("tiny-q4_0.gguf");
  options.role = role;
  options.num_gpu_blocks_override = 2000;
  options.max_num_seqs = 32;
  options.max_num_batched_tokens = 128;
  options.threads = 2;
  options.cpu_share = 1;  // no board: tests run beside each other
  options.kv_transfer = TestTransfer();
  options.transports = {"tcp"};
  return options;
}

// A runtime with engines on it, driven from the test.
class NativeEngine : public ::testing::Test {
 protected:
  struct Loaded {
    Metrics metrics;
    LoadedEngine loaded;
    Engine& engine() { return *loaded.engine; }
  };

  std::unique_ptr<Loaded> Load(WorkerOptions options) {
    auto worker = std::make_unique<Loaded>();
    std::optional<Result<LoadedEngine>> result;
    const auto load = [](rt::Runtime* runtime, Metrics* metrics, WorkerOptions from,
                         std::optional<Result<LoadedEngine>>* to) -> rt::Task<void> {
      *to = co_await LoadNativeEngine(*runtime, *metrics, std::move(from), {});
    };
    runtime_.RunTask(load(&runtime_, &worker->metrics, std::move(options), &result));
    EXPECT_TRUE(result && *result) << (result && !*result ? result->error().message : "");
    if (!result || !*result) std::abort();
    worker->loaded = *std::move(*result);
    return worker;
  }
  void Stop(Loaded& worker) { runtime_.RunTask(worker.engine().Stop()); }

  template <class Done>
  bool RunUntil(Done done, Duration limit = seconds(60)) {
    bool in_time = true;
    const auto wait = [](rt::Runtime* runtime, Done* until, MonoTime end,
                         bool* ok) -> rt::Task<void> {
      while (!(*until)()) {
        if (runtime->Now() > end) *ok = false;
        if (!*ok) co_return;
        if (!co_await runtime->Sleep(milliseconds(1))) co_return;
      }
    };
    runtime_.RunTask(wait(&runtime_, &done, runtime_.Now() + limit, &in_time));
    return in_time;
  }
  bool Run(const TestCall& call) {
    return RunUntil([&] { return call.Done(); });
  }

  rt::RealRuntime runtime_;
};

constexpr int kPrompts = 20;

// Twenty prompts, eight of them above 600 tokens; some share their beginnings.
wire::GenerateRequest Ask(int index, int32_t vocab, std::string params = "") {
  wire::GenerateRequest request;
  request.request_id = "q" + std::to_string(index);
  const int64_t length = index < 8 ? 601 + index * 29 : 3 + (index - 8) * 17;
  const int family = index % 5;
  for (int64_t i = 0; i < length; ++i) {
    const int64_t mixed = (i * i * 3 + i * 11 + family * 97 + (i > 40 ? index : 0)) % vocab;
    request.prompt.push_back(static_cast<wire::TokenId>(mixed));
  }
  request.max_tokens = 24;
  request.ignore_eos = true;
  request.sampling.temperature = index % 3 == 2 ? 0.9 : 0;
  request.sampling.seed = index;
  request.kv_transfer_params = std::move(params);
  return request;
}

using Texts = std::vector<std::vector<wire::TokenId>>;

class PathEquality : public NativeEngine {
 protected:
  int32_t Vocab(Loaded& worker) { return worker.loaded.artifacts.vocab; }

  // One after the other.
  Texts Alone(Loaded& worker, std::vector<wire::GenerateItem>* firsts = nullptr) {
    Texts texts;
    for (int i = first_prompt_; i < kPrompts; ++i) {
      TestCall call;
      call.Start(worker.engine(), Ask(i, Vocab(worker)));
      EXPECT_TRUE(Run(call) && call.Ok());
      texts.push_back(call.text.at(0));
      if (firsts != nullptr) firsts->push_back(call.first);
    }
    return texts;
  }
  Texts Together(Loaded& worker) {
    std::vector<std::unique_ptr<TestCall>> calls;
    for (int i = first_prompt_; i < kPrompts; ++i) {
      calls.push_back(std::make_unique<TestCall>());
      calls.back()->Start(worker.engine(), Ask(i, Vocab(worker)));
    }
    EXPECT_TRUE(RunUntil([&] {
      return std::all_of(calls.begin(), calls.end(), [](auto& c) { return c->Done(); });
    }));
    Texts texts;
    for (auto& call : calls) {
      EXPECT_TRUE(call->Ok()) << (call->end && !*call->end ? call->end->error().message : "");
      texts.push_back(call->text.at(0));
    }
    return texts;
  }
  Texts Reference(WorkerOptions options = NativeWorker(Role::kAggregated)) {
    options.enable_prefix_caching = false;
    auto worker = Load(options);
    Texts texts = Alone(*worker);
    EXPECT_EQ(worker->engine().Stats().max_rows_in_step, 1U);
    EXPECT_EQ(worker->engine().Stats().prefix_hit_tokens, 0U);
    Stop(*worker);
    return texts;
  }

  int first_prompt_ = 0;  // the long ones come first; a model of short context leaves them out
};

TEST_F(PathEquality, PrefixCacheColdAndWarm) {
  const Texts expected = Reference();
  EXPECT_NE(expected[0], expected[1]);
  auto worker = Load(NativeWorker(Role::kAggregated));
  EXPECT_EQ(Alone(*worker), expected);
  std::vector<wire::GenerateItem> firsts;
  EXPECT_EQ(Alone(*worker, &firsts), expected);
  for (int i = 0; i < 8; ++i) EXPECT_GT(firsts[static_cast<size_t>(i)].cached_tokens, 590);
  ExpectQuiet(worker->engine());
  Stop(*worker);
}

TEST_F(PathEquality, BatchedAndPreempted) {
  const Texts expected = Reference();
  auto worker = Load(NativeWorker(Role::kAggregated));
  EXPECT_EQ(Together(*worker), expected);
  EXPECT_GE(worker->engine().Stats().max_rows_in_step, 8U);
  Stop(*worker);

  auto options = NativeWorker(Role::kAggregated);
  options.num_gpu_blocks_override = 60;
  options.enable_prefix_caching = false;
  auto small = Load(options);
  EXPECT_EQ(Together(*small), expected);
  EXPECT_GT(small->engine().Stats().preemptions, 0U);
  ExpectQuiet(small->engine());
  Stop(*small);
}

TEST_F(PathEquality, ChunkSizesAndThreads) {
  const Texts expected = Reference();
  for (const int chunk : {32, 333}) {
    auto options = NativeWorker(Role::kAggregated);
    options.max_num_batched_tokens = chunk;
    options.threads = chunk == 32 ? 1 : 2;
    auto worker = Load(options);
    EXPECT_EQ(Together(*worker), expected) << chunk;
    Stop(*worker);
  }
}

struct Served {
  std::string name;
  std::string model;
  std::string kv_cache_dtype = "auto";
  int first_prompt = 0;
};

// Every prompt's keys and values go from a prefill worker to a decode worker; the texts are those
// of one worker alone.
class HandOver : public PathEquality, public ::testing::WithParamInterface<Served> {
 protected:
  void SetUp() override { first_prompt_ = GetParam().first_prompt; }
  WorkerOptions Worker(Role role) {
    WorkerOptions options = NativeWorker(role);
    options.model_path = CachedModel(GetParam().model);
    options.kv_cache_dtype = GetParam().kv_cache_dtype;
    return options;
  }
};

TEST_P(HandOver, PrefillAndDecodeWorkersOverTcp) {
  const Texts expected = Reference(Worker(Role::kAggregated));
  auto prefill = Load(Worker(Role::kPrefill));
  auto options = Worker(Role::kDecode);
  options.enable_prefix_caching = false;
  auto decode = Load(options);
  for (int i = first_prompt_; i < kPrompts; ++i) {
    TestCall first;
    first.Start(prefill->engine(), Ask(i, Vocab(*prefill), std::string(kPrefillParams)));
    ASSERT_TRUE(Run(first) && first.Ok());
    TestCall second;
    second.Start(decode->engine(), Ask(i, Vocab(*decode), first.params));
    ASSERT_TRUE(Run(second) && second.Ok());
    EXPECT_EQ(second.text.at(0), expected[static_cast<size_t>(i - first_prompt_)]) << i;
    EXPECT_EQ(second.first.computed_prompt_tokens, 1);
    EXPECT_GT(second.first.pulled_bytes, 0);
    EXPECT_EQ(second.first.pull_transport, "tcp");
    EXPECT_EQ(second.first.fallback_reason, "");
  }
  EXPECT_EQ(decode->engine().Stats().prompt_tokens_computed,
            static_cast<uint64_t>(kPrompts - first_prompt_));
  EXPECT_TRUE(RunUntil([&] { return prefill->engine().Stats().leases == 0; }, seconds(2)));
  EXPECT_TRUE(RunUntil(
      [&] {
        const auto stats = prefill->engine().Stats();
        return stats.blocks_free == stats.blocks_total;
      },
      seconds(2)));
  Stop(*prefill);
  Stop(*decode);
}

TEST_P(HandOver, BatchedWorkersGiveTheSameTexts) {
  const Texts expected = Reference(Worker(Role::kAggregated));
  auto worker = Load(Worker(Role::kAggregated));
  EXPECT_EQ(Together(*worker), expected);
  EXPECT_GE(worker->engine().Stats().max_rows_in_step, 8U);
  Stop(*worker);
}

// Prompts of up to 190 tokens, many times the windows of 8.
constexpr int kShortPrompts = 8;
INSTANTIATE_TEST_SUITE_P(
    ModelsAndKvDtypes, HandOver,
    ::testing::Values(Served{"float16", "tiny-q4_0.gguf"},
                      Served{"float32", "tiny-q4_0.gguf", "float32"},
                      Served{"bfloat16", "tiny-q4_0.gguf", "bfloat16"},
                      Served{"int8", "tiny-q4_0.gguf", "int8_per_token_head"},
                      Served{"windows", "families/mistral-window8", "auto", kShortPrompts},
                      Served{"windows_and_caps", "families/gemma2-f32", "auto", kShortPrompts},
                      Served{"windows_int8", "families/gemma3-f32", "int8_per_token_head",
                             kShortPrompts},
                      Served{"latent", "families/deepseekv3-f32", "bfloat16", kShortPrompts}),
    [](const auto& info) { return info.param.name; });

TEST_F(PathEquality, AnotherKvDtypeIsRefusedAndThePromptComputedAgain) {
  auto options = NativeWorker(Role::kAggregated);
  options.kv_cache_dtype = "int8_per_token_head";
  const Texts expected = Reference(options);
  auto prefill = Load(NativeWorker(Role::kPrefill));
  options.role = Role::kDecode;
  auto decode = Load(options);
  TestCall first;
  first.Start(prefill->engine(), Ask(0, Vocab(*prefill), std::string(kPrefillParams)));
  ASSERT_TRUE(Run(first) && first.Ok());
  TestCall second;
  second.Start(decode->engine(), Ask(0, Vocab(*decode), first.params));
  ASSERT_TRUE(Run(second) && second.Ok());
  EXPECT_EQ(second.first.fallback_reason, "incompatible");
  EXPECT_EQ(second.first.pulled_bytes, 0);
  EXPECT_EQ(second.text.at(0), expected[0]);
  Stop(*prefill);
  Stop(*decode);
}

TEST_F(NativeEngine, CancelStopsALongPrefillBetweenLayers) {
  auto options = NativeWorker(Role::kAggregated);
  options.max_num_batched_tokens = 4096;
  auto worker = Load(options);
  for (int i = 0; i < 5; ++i) {
    TestCall call;
    auto request = Ask(i, worker->loaded.artifacts.vocab);
    call.Start(worker->engine(), std::move(request));
    RunUntil([&] { return worker->engine().Stats().steps > static_cast<uint64_t>(i); }, seconds(2));
    call.cancel.Cancel();
    EXPECT_EQ(call.EndCode(), Code::kCancelled);
    EXPECT_TRUE(RunUntil(
        [&] {
          const auto stats = worker->engine().Stats();
          return stats.running == 0 && stats.blocks_free == stats.blocks_total;
        },
        seconds(2)));
  }
  Stop(*worker);
}

TEST_F(NativeEngine, StopEndsWhatRuns) {
  auto worker = Load(NativeWorker(Role::kAggregated));
  TestCall call;
  auto request = Ask(0, worker->loaded.artifacts.vocab);
  request.max_tokens = 100000;
  call.Start(worker->engine(), std::move(request));
  RunUntil([&] { return !call.text.empty(); });
  Stop(*worker);
  EXPECT_EQ(call.EndCode(), Code::kUnavailable);
}

TEST_F(NativeEngine, LogprobsAndChoicesComeThrough) {
  auto worker = Load(NativeWorker(Role::kAggregated));
  TestCall call;
  auto request = Ask(9, worker->loaded.artifacts.vocab);
  request.n = 3;
  request.sampling.temperature = 1;
  request.logprobs = 2;
  call.Start(worker->engine(), std::move(request));
  ASSERT_TRUE(Run(call) && call.Ok());
  ASSERT_EQ(call.text.size(), 3U);
  EXPECT_NE(call.text[0], call.text[1]);
  ASSERT_EQ(call.first.logprobs.size(), 1U);
  EXPECT_EQ(call.first.logprobs[0].top.size(), 2U);
  EXPECT_LE(call.first.logprobs[0].logprob, 0.0F);
  Stop(*worker);
}

// Weights of NaN give NaN scores: an error, not text.
TEST_F(NativeEngine, DamagedWeightsAreAnErrorNotText) {
  const std::string path = ::testing::TempDir() + fmt::format("nan-{}.gguf", getpid());
  std::filesystem::copy_file(CachedModel("tiny-f32.gguf"), path);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4096, std::ios::end);
    file << std::string(4096, '\xff');
  }
  WorkerOptions options = NativeWorker(Role::kAggregated);
  options.model_path = path;
  auto worker = Load(options);
  TestCall call;
  call.Start(worker->engine(), Ask(8, worker->loaded.artifacts.vocab));
  EXPECT_TRUE(Run(call));
  std::filesystem::remove(path);
  EXPECT_EQ(call.EndCode(), Code::kCorrupt);
  EXPECT_TRUE(call.text.empty());
  Stop(*worker);
}

WorkerOptions ModelAt(const std::string& path) {
  WorkerOptions options;
  options.model_path = path;
  return options;
}

// The file's token list, but an embedding of one row less.
TEST(Artifacts, MoreTokensThanEmbeddingRowsAreRefused) {
  std::ifstream in(CachedModel("tiny-q4_0.gguf"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto good = ReadArtifacts(ModelAt(CachedModel("tiny-q4_0.gguf")));
  ASSERT_TRUE(good.has_value()) << good.error().message;
  constexpr std::string_view kName = "token_embd.weight";
  const size_t at = bytes.find(kName);
  ASSERT_NE(at, std::string::npos);
  // After the name: the number of dimensions (u32), then each (u64); rows are the second.
  const size_t rows_at = at + kName.size() + 4 + 8;
  uint64_t rows = 0;
  std::memcpy(&rows, bytes.data() + rows_at, sizeof(rows));
  EXPECT_EQ(static_cast<int32_t>(rows), good->vocab);
  --rows;
  std::memcpy(bytes.data() + rows_at, &rows, sizeof(rows));
  const std::string path = ::testing::TempDir() + fmt::format("vocab-{}.gguf", getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  const auto refused = ReadArtifacts(ModelAt(path));
  std::filesystem::remove(path);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  for (const uint64_t number : {rows, rows + 1})
    EXPECT_NE(refused.error().message.find(std::to_string(number)), std::string::npos)
        << refused.error().message;
}

// One byte of one merge is wrong: its result is no token, and frontends would refuse the tokenizer.
TEST(Artifacts, ATokenizerThatFrontendsCannotBuildIsRefused) {
  std::ifstream in(CachedModel("tiny-q4_0.gguf"), std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  constexpr std::string_view kMerges = "tokenizer.ggml.merges";
  const size_t at = bytes.find(kMerges);
  ASSERT_NE(at, std::string::npos);
  // After the name: two types (u32) and the count (u64), then the first merge's length and bytes.
  const size_t length_at = at + kMerges.size() + 4 + 4 + 8;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data() + length_at, sizeof(length));
  ASSERT_LT(length, 100u);
  bytes[length_at + sizeof(length) + length - 1] = '\x01';
  const std::string path = ::testing::TempDir() + fmt::format("merge-{}.gguf", getpid());
  std::ofstream(path, std::ios::binary) << bytes;
  const auto refused = ReadArtifacts(ModelAt(path));
  std::filesystem::remove(path);
  ASSERT_FALSE(refused.has_value());
  for (const char* part : {"tokenizer cannot be built", "merge", "download it again"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
}

}  // namespace
}  // namespace tandem::engine
