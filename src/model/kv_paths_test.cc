// Positions far beyond a model's window, in every KV dtype: the logits are the same bits whether a
// sequence is computed at once, in chunks, token by token beside another one, or handed over in the
// middle to an engine that keeps its blocks elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model/test_kv.h"
#include "model/test_model.h"
#include "model/test_team.h"
#include "model/tiny_gguf.h"

namespace tandem::model {
namespace {

constexpr int kTokens = 330;  // more than a span, many windows of 8
constexpr int kHandedOver = 290;
constexpr int32_t kBlocks = 64;

std::vector<TokenId> Prompt(const Model& model, uint32_t seed) {
  RandomBytes random(seed);
  std::vector<TokenId> tokens(kTokens);
  for (TokenId& token : tokens) token = random.Integer(0, model.config().vocab - 1);
  return tokens;
}

// A model, and KV blocks of two sequences; what was never written is NaN.
class Engine {
 public:
  Engine(const std::string& name, KvDtype dtype, int threads) : team_(threads) {
    auto loaded = Model::Load({.path = CachedModel(name), .kv_dtype = dtype}, team_);
    EXPECT_TRUE(loaded) << loaded.error().message << " (run tests/tools/prepare_test_data.py)";
    model_ = *std::move(loaded);
    EXPECT_TRUE(model_->ReserveScratch(kTokens, kTokens));
    bytes_.assign(BlockBytes() * kBlocks + 64, std::byte{0xFF});
  }

  struct Request {
    int sequence;
    int tokens;
  };
  // The next tokens of some sequences; all their logits, in order.
  std::vector<float> Step(const std::vector<Request>& requests) {
    std::vector<BatchSlice> slices;
    size_t rows = 0;
    for (const Request& r : requests) {
      Sequence& s = sequences_[r.sequence];
      if (s.tokens.empty()) s.tokens = Prompt(*model_, static_cast<uint32_t>(r.sequence) + 1);
      const auto count = static_cast<size_t>(r.tokens);
      Extend(s, s.length + count);
      slices.push_back({.tokens = std::span(s.tokens).subspan(s.length, count),
                        .start_position = static_cast<int64_t>(s.length),
                        .block_table = s.table,
                        .logit_rows = r.tokens});
      s.length += count;
      rows += count;
    }
    std::vector<float> logits(rows * static_cast<size_t>(model_->config().vocab));
    const Status status = model_->Forward(slices, {Base(), kBlocks}, team_, logits, nullptr);
    EXPECT_TRUE(status) << status.error().message;
    return logits;
  }

  std::vector<float> Run(int end, int chunk) {
    std::vector<float> all;
    for (int at = static_cast<int>(sequences_[0].length); at < end; at += chunk)
      std::ranges::copy(Step({{0, std::min(chunk, end - at)}}), std::back_inserter(all));
    return all;
  }

  // Takes over sequence 0, whose blocks get other numbers.
  void TakeFrom(Engine& other) {
    EXPECT_EQ(model_->kv_layout().Id(), other.model_->kv_layout().Id());
    const Sequence& from = other.sequences_[0];
    Sequence& to = sequences_[0];
    to.tokens = from.tokens;
    Extend(to, from.length);
    to.length = from.length;
    for (size_t i = 0; i < from.table.size(); ++i)
      std::memcpy(Base() + static_cast<size_t>(to.table[i]) * BlockBytes(),
                  other.Base() + static_cast<size_t>(from.table[i]) * BlockBytes(), BlockBytes());
  }

 private:
  struct Sequence {
    std::vector<TokenId> tokens;
    std::vector<BlockId> table;
    size_t length = 0;
  };
  size_t BlockBytes() const { return model_->kv_layout().BlockBytes(); }
  std::byte* Base() {
    return bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64;
  }
  void Extend(Sequence& s, size_t end) {
    const auto block_tokens = static_cast<size_t>(model_->kv_layout().block_tokens);
    while (s.table.size() * block_tokens < end) s.table.push_back(next_block_++ * 13 % kBlocks);
  }

  TestTeam team_;
  std::unique_ptr<Model> model_;
  std::vector<std::byte> bytes_;
  int32_t next_block_ = 3;
  Sequence sequences_[2];
};

bool SameBits(const std::vector<float>& a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class KvPaths : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { FlushDenormalsOnThisThread(); }
};

TEST_P(KvPaths, SameBitsInChunksBatchedAndHandedOver) {
  for (const KvDtype dtype : kAllKvDtypes) {
    SCOPED_TRACE(KvDtypeName(dtype));
    Engine whole(GetParam(), dtype, 1);
    const std::vector<float> expected = whole.Run(kTokens, kTokens);
    for (const float logit : expected) ASSERT_TRUE(std::isfinite(logit));
    const size_t row = expected.size() / kTokens;
    const auto tail = std::span(expected).subspan(size_t{kHandedOver} * row);

    Engine prefill(GetParam(), dtype, 2);
    EXPECT_TRUE(SameBits(prefill.Run(kHandedOver, 67),
                         std::span(expected).first(size_t{kHandedOver} * row)));
    Engine decode(GetParam(), dtype, 2);
    decode.TakeFrom(prefill);
    std::vector<float> together;
    for (int at = kHandedOver; at < kTokens; ++at) {
      const std::vector<float> logits = decode.Step({{1, 5}, {0, 1}});
      together.insert(together.end(), logits.end() - static_cast<std::ptrdiff_t>(row),
                      logits.end());
    }
    EXPECT_TRUE(SameBits(together, tail));
    EXPECT_TRUE(SameBits(prefill.Run(kTokens, 1), tail));
  }
}

// Windows of 8 in all layers, in some, with soft caps; a latent; no window.
INSTANTIATE_TEST_SUITE_P(Families, KvPaths,
                         testing::Values("families/mistral-window8", "families/gemma2-f32",
                                         "families/gemma3-f32", "families/deepseekv3-f32",
                                         "families/qwen3-f32"),
                         [](const auto& info) {
                           std::string name = info.param.substr(info.param.find('/') + 1);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem::model
