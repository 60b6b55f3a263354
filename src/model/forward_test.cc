// The numerics contract on whole models: the logits of a position are the same bits on every path.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/ops.h"
#include "model/test_team.h"
#include "model/tiny_gguf.h"

namespace tandem::model {
namespace {

constexpr int kMaxTokens = 160;
constexpr int kArenaBlocks = 256;

std::string TinyPath(TensorType type, const TinyShape& shape) {
  // Another run of the tests may write the same models.
  const std::string path = testing::TempDir() + std::to_string(getpid()) + "-forward-" +
                           std::string(InfoOf(type).name) + (shape.tied ? "-tied-" : "-untied-") +
                           std::to_string(shape.head_dim) + ".gguf";
  return TinyGguf(shape, type, static_cast<uint32_t>(type) + 1).WriteTo(path);
}

// A model with an arena in which each sequence gets blocks of its own, scattered.
class Engine {
 public:
  explicit Engine(const LoadOptions& options, int threads = 1) : team_(threads) {
    auto loaded = Model::Load(options, team_);
    EXPECT_TRUE(loaded) << loaded.error().message;
    model_ = std::move(*loaded);
    EXPECT_TRUE(model_->ReserveScratch(kMaxTokens, kMaxTokens));
    arena_bytes_.assign(model_->kv_layout().BlockBytes() * kArenaBlocks, std::byte{0xFF});
  }

  const Model& model() const { return *model_; }
  size_t vocab() const { return static_cast<size_t>(model_->config().vocab); }

  // Computes the slices in one step, with logits for all their tokens, and appends them by
  // sequence.
  struct Request {
    int sequence;
    std::vector<TokenId> tokens;
  };
  void Step(const std::vector<Request>& requests) {
    std::vector<BatchSlice> slices;
    size_t rows = 0;
    for (const Request& r : requests) {
      std::vector<BlockId>& table = tables_[r.sequence];
      const size_t end = lengths_[r.sequence] + r.tokens.size();
      const auto block_tokens = static_cast<size_t>(model_->kv_layout().block_tokens);
      while (table.size() * block_tokens < end)
        table.push_back((97 * next_block_++ + 13) % kArenaBlocks);
    }
    for (const Request& r : requests) {
      slices.push_back({r.tokens, static_cast<int64_t>(lengths_[r.sequence]), tables_[r.sequence],
                        static_cast<int>(r.tokens.size())});
      rows += r.tokens.size();
    }
    std::vector<float> out(rows * vocab());
    const KvArena arena{arena_bytes_.data(), kArenaBlocks};
    const Status status = model_->Forward(slices, arena, team_, out, nullptr);
    ASSERT_TRUE(status) << status.error().message;
    const float* at = out.data();
    for (const Request& r : requests) {
      const size_t count = r.tokens.size() * vocab();
      logits_[r.sequence].insert(logits_[r.sequence].end(), at, at + count);
      lengths_[r.sequence] += r.tokens.size();
      at += count;
    }
  }

  // A whole sequence in chunks of this many tokens.
  void Feed(int sequence, const std::vector<TokenId>& tokens, size_t chunk) {
    for (size_t i = 0; i < tokens.size(); i += chunk) {
      const size_t n = std::min(chunk, tokens.size() - i);
      Step({{sequence,
             {tokens.begin() + static_cast<std::ptrdiff_t>(i),
              tokens.begin() + static_cast<std::ptrdiff_t>(i + n)}}});
    }
  }

  const std::vector<float>& logits(int sequence) { return logits_[sequence]; }
  Model& mutable_model() { return *model_; }
  KvArena arena() { return {arena_bytes_.data(), kArenaBlocks}; }
  Team& team() { return team_; }

 private:
  TestTeam team_;
  std::unique_ptr<Model> model_;
  std::vector<std::byte> arena_bytes_;
  int next_block_ = 0;
  std::map<int, std::vector<BlockId>> tables_;
  std::map<int, size_t> lengths_;
  std::map<int, std::vector<float>> logits_;
};

std::vector<TokenId> RandomTokens(int count, int vocab, uint32_t seed) {
  RandomBytes random(seed);
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  for (TokenId& token : tokens) token = random.Integer(0, vocab - 1);
  return tokens;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class ForwardTest : public testing::Test {
 protected:
  void SetUp() override { FlushDenormalsOnThisThread(); }
};

TEST_F(ForwardTest, SameBitsForEveryTypeLevelThreadCountAndChunk) {
  const TinyShape shape = TinyShape::Wide();
  const std::vector<TokenId> tokens = RandomTokens(70, shape.vocab, 1);
  for (const TensorType type : kAllTypes) {
    LoadOptions options{.path = TinyPath(type, shape)};
    options.force_isa = "plain";
    Engine reference(options);
    reference.Feed(0, tokens, 128);
    const std::vector<float>& expected = reference.logits(0);
    for (const float v : expected) ASSERT_TRUE(std::isfinite(v));
    const OpsList list = AvailableOps();
    for (int level = 0; level < list.count; ++level)
      for (const int threads : {1, 2})
        for (const size_t chunk : {size_t{1}, size_t{7}, size_t{16}, size_t{64}, size_t{128}}) {
          if (level == 0 && chunk == 128) continue;  // the reference itself
          options.force_isa = list.levels[level]->name;
          Engine engine(options, threads);
          engine.Feed(0, tokens, chunk);
          EXPECT_TRUE(SameBits(engine.logits(0), expected))
              << InfoOf(type).name << " " << options.force_isa << " threads " << threads
              << " chunk " << chunk;
        }
  }
}

// Short, and without halves in the cache: what tests/tools/avx512_under_bochs can run.
TEST_F(ForwardTest, SameBitsForEveryTypeAndLevelInFloat32) {
  const TinyShape shape = TinyShape::Wide();
  const std::vector<TokenId> tokens = RandomTokens(24, shape.vocab, 8);
  for (const TensorType type : kAllTypes) {
    LoadOptions options{.path = TinyPath(type, shape), .kv_dtype = KvDtype::kFloat32};
    options.force_isa = "plain";
    Engine reference(options);
    reference.Feed(0, tokens, 24);
    const OpsList list = AvailableOps();
    for (int level = 1; level < list.count; ++level)
      for (const size_t chunk : {size_t{1}, size_t{24}}) {
        options.force_isa = list.levels[level]->name;
        Engine engine(options);
        engine.Feed(0, tokens, chunk);
        EXPECT_TRUE(SameBits(engine.logits(0), reference.logits(0)))
            << InfoOf(type).name << " " << options.force_isa << " chunk " << chunk;
      }
  }
}

TEST_F(ForwardTest, SameBitsForAnyBatchAndOrder) {
  const TinyShape shape;
  constexpr int kSequences = 64;
  for (const TensorType type : {TensorType::kQ4_1, TensorType::kQ8_0, TensorType::kF16}) {
    const LoadOptions options{.path = TinyPath(type, shape)};
    std::vector<std::vector<TokenId>> prompts;
    Engine alone(options);
    for (int s = 0; s < kSequences; ++s) {
      prompts.push_back(RandomTokens(1 + s % 9, shape.vocab, static_cast<uint32_t>(s)));
      alone.Feed(s, prompts.back(), 1);
    }
    for (const int batch : {1, 2, 3, 5, 8, 13, 32, 64})
      for (const bool reversed : {false, true}) {
        Engine engine(options, 2);
        std::vector<int> order(kSequences);
        std::iota(order.begin(), order.end(), 0);
        if (reversed) std::ranges::reverse(order);
        // All but the last token as chunks, then one decode row of each sequence together.
        for (const int s : order)
          if (const auto& p = prompts[static_cast<size_t>(s)]; p.size() > 1)
            engine.Feed(s, {p.begin(), p.end() - 1}, 4);
        for (size_t i = 0; i < order.size(); i += static_cast<size_t>(batch)) {
          std::vector<Engine::Request> requests;
          for (size_t j = i; j < std::min(order.size(), i + static_cast<size_t>(batch)); ++j)
            requests.push_back({order[j], {prompts[static_cast<size_t>(order[j])].back()}});
          engine.Step(requests);
        }
        for (int s = 0; s < kSequences; ++s)
          ASSERT_TRUE(SameBits(engine.logits(s), alone.logits(s)))
              << InfoOf(type).name << " batch " << batch << " sequence " << s;
      }
  }
}

TEST_F(ForwardTest, ChunksAndDecodeRowsShareAStep) {
  const TinyShape shape;
  const LoadOptions options{.path = TinyPath(TensorType::kQ4_0, shape)};
  const std::vector<TokenId> a = RandomTokens(40, shape.vocab, 1);
  const std::vector<TokenId> b = RandomTokens(30, shape.vocab, 2);
  Engine alone(options);
  alone.Feed(0, a, 1);
  alone.Feed(1, b, 1);
  Engine mixed(options, 2);
  mixed.Feed(0, {a.begin(), a.begin() + 20}, 20);
  for (size_t i = 0; i < 20; ++i) {
    std::vector<Engine::Request> requests = {{0, {a[20 + i]}}};
    if (i < 3)
      requests.push_back({1,
                          {b.begin() + static_cast<std::ptrdiff_t>(i * 10),
                           b.begin() + static_cast<std::ptrdiff_t>(i * 10 + 10)}});
    mixed.Step(requests);
  }
  EXPECT_TRUE(SameBits(mixed.logits(0), alone.logits(0)));
  EXPECT_TRUE(SameBits(mixed.logits(1), alone.logits(1)));
}

// Several spans of 256 keys: a lone decode row is divided by span over the threads, a chunk and a
// big batch are not.
void ExpectSameBitsOverManySpans(KvDtype dtype) {
  const TinyShape shape;
  const std::vector<TokenId> tokens = RandomTokens(700, shape.vocab, 3);
  const LoadOptions options{.path = TinyPath(TensorType::kQ8_0, shape), .kv_dtype = dtype};
  Engine one(options, 1);
  one.Feed(0, tokens, 1);
  Engine chunks(options, 2);
  chunks.Feed(0, tokens, 128);
  EXPECT_TRUE(SameBits(one.logits(0), chunks.logits(0)));
  Engine odd(options, 3);
  odd.Feed(0, tokens, 67);
  EXPECT_TRUE(SameBits(one.logits(0), odd.logits(0)));
  Engine ones(options, 2);
  ones.Feed(0, {tokens.begin(), tokens.begin() + 650}, 130);
  ones.Feed(0, {tokens.begin() + 650, tokens.end()}, 1);
  EXPECT_TRUE(SameBits(one.logits(0), ones.logits(0)));
  LoadOptions plain = options;
  plain.force_isa = "plain";
  Engine baseline(plain, 2);
  baseline.Feed(0, tokens, 100);
  EXPECT_TRUE(SameBits(one.logits(0), baseline.logits(0)));
}

TEST_F(ForwardTest, SameBitsOverManySpansInFloat16) {
  ExpectSameBitsOverManySpans(KvDtype::kFloat16);
}

TEST_F(ForwardTest, SameBitsOverManySpansInFloat32) {
  ExpectSameBitsOverManySpans(KvDtype::kFloat32);
}

TEST_F(ForwardTest, SameBitsOverManySpansInBfloat16) {
  ExpectSameBitsOverManySpans(KvDtype::kBfloat16);
}

TEST_F(ForwardTest, SameBitsOverManySpansInInt8) { ExpectSameBitsOverManySpans(KvDtype::kInt8); }

TEST_F(ForwardTest, SameBitsForEveryBlockSize) {
  const TinyShape shape;
  const std::vector<TokenId> tokens = RandomTokens(90, shape.vocab, 4);
  Engine reference(LoadOptions{.path = TinyPath(TensorType::kQ4_1, shape)});
  reference.Feed(0, tokens, 90);
  for (const int block_tokens : {1, 5, 8, 24, 32, 64, 128}) {
    const LoadOptions options{.path = TinyPath(TensorType::kQ4_1, shape),
                              .block_tokens = block_tokens};
    for (const size_t chunk : {size_t{1}, size_t{33}}) {
      Engine engine(options, 2);
      engine.Feed(0, tokens, chunk);
      EXPECT_TRUE(SameBits(engine.logits(0), reference.logits(0))) << block_tokens;
    }
  }
}

TEST_F(ForwardTest, EveryHeadShapeRuns) {
  // Untied output, heads that do not fill a panel, many query heads for one KV head.
  for (const TinyShape& shape :
       {TinyShape{.heads = 2, .kv_heads = 1, .head_dim = 48, .tied = false},
        TinyShape{.heads = 8, .kv_heads = 1, .head_dim = 16},
        TinyShape{.heads = 4, .kv_heads = 4, .head_dim = 32}}) {
    const std::vector<TokenId> tokens = RandomTokens(50, shape.vocab, 5);
    const LoadOptions options{.path = TinyPath(TensorType::kQ8_0, shape)};
    Engine chunked(options, 2);
    chunked.Feed(0, tokens, 50);
    Engine single(options, 1);
    single.Feed(0, tokens, 1);
    EXPECT_TRUE(SameBits(chunked.logits(0), single.logits(0))) << shape.head_dim;
  }
}

TEST_F(ForwardTest, OnlyTheWantedLogitsAreGiven) {
  const TinyShape shape;
  const std::vector<TokenId> tokens = RandomTokens(20, shape.vocab, 6);
  Engine all(LoadOptions{.path = TinyPath(TensorType::kQ4_1, shape)});
  all.Feed(0, tokens, 20);
  std::vector<BlockId> table = {100, 101};
  const auto vocab = all.vocab();
  std::vector<float> last(2 * vocab);
  const BatchSlice slice{tokens, 0, table, 2};
  ASSERT_TRUE(all.mutable_model().Forward({&slice, 1}, all.arena(), all.team(), last, nullptr));
  EXPECT_EQ(
      0, std::memcmp(last.data(), all.logits(0).data() + 18 * vocab, last.size() * sizeof(float)));
  const BatchSlice silent{tokens, 0, table, 0};
  EXPECT_TRUE(all.mutable_model().Forward({&silent, 1}, all.arena(), all.team(), {}, nullptr));
}

TEST_F(ForwardTest, AbortStopsBeforeALayer) {
  const TinyShape shape;
  Engine engine(LoadOptions{.path = TinyPath(TensorType::kQ4_1, shape)});
  const std::vector<TokenId> tokens = RandomTokens(4, shape.vocab, 7);
  const std::vector<BlockId> table = {0};
  const BatchSlice slice{tokens, 0, table, 0};
  const std::atomic<bool> abort{true};
  const Status status =
      engine.mutable_model().Forward({&slice, 1}, engine.arena(), engine.team(), {}, &abort);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCancelled);
}

TEST_F(ForwardTest, BadStepsAreRefused) {
  const TinyShape shape;
  Engine engine(LoadOptions{.path = TinyPath(TensorType::kQ4_1, shape)});
  const std::vector<TokenId> tokens = {1, 2, 3};
  const std::vector<TokenId> strange = {1, shape.vocab};
  const std::vector<TokenId> many(kMaxTokens + 1, 1);
  const std::vector<BlockId> table = {0};
  const std::vector<BlockId> outside = {kArenaBlocks};
  const std::vector<BlockId> long_table(20, 0);
  const std::vector<BatchSlice> bad = {
      {{}, 0, table, 0},        {tokens, -1, table, 0}, {tokens, 14, table, 0},
      {tokens, 0, outside, 0},  {strange, 0, table, 0}, {tokens, 0, table, 4},
      {many, 0, long_table, 0}, {tokens, 0, table, 1},
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    const Status status =
        engine.mutable_model().Forward({&bad[i], 1}, engine.arena(), engine.team(), {}, nullptr);
    ASSERT_FALSE(status) << i;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument) << i;
  }
}

TEST_F(ForwardTest, WidthsThatFillNoTileArePadded) {
  const TinyShape narrow{
      .embedding = 80, .heads = 3, .kv_heads = 1, .feed_forward = 50, .head_dim = 10};
  const LoadOptions options{.path = TinyPath(TensorType::kF32, narrow)};
  const std::vector<TokenId> tokens = RandomTokens(40, narrow.vocab, 3);
  Engine once(options);
  once.Feed(0, tokens, 64);
  for (const float v : once.logits(0)) ASSERT_TRUE(std::isfinite(v));
  Engine chunked(options, 2);
  chunked.Feed(0, tokens, 7);
  EXPECT_TRUE(SameBits(once.logits(0), chunked.logits(0)));
}

TEST_F(ForwardTest, BlockSizesAreBounded) {
  TestTeam team(1);
  const auto blocks =
      Model::Load({.path = TinyPath(TensorType::kF32, TinyShape{}), .block_tokens = 0}, team);
  ASSERT_FALSE(blocks);
  EXPECT_EQ(blocks.error().code, Code::kInvalidArgument);
}

TEST_F(ForwardTest, IdsSayWhatMustBeEqual) {
  Engine engine(LoadOptions{.path = TinyPath(TensorType::kF32, TinyShape{}), .force_isa = "plain"});
  EXPECT_EQ(engine.model().NumericsId(), "plain-f16-k3");
  EXPECT_EQ(engine.model().kv_layout().Id(), "kv2-f16-l2-h2-k16-v16-b16");
  EXPECT_EQ(engine.model().kv_layout().BlockBytes(), size_t{2} * 2 * 2 * 2 * 16 * 16);
  EXPECT_EQ(engine.model().WeightsDigest().size(), 64U);
}

}  // namespace
}  // namespace tandem::model
