#include "wire/messages.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "wire/msgpack.h"

namespace tandem::wire {
namespace {

std::string HexOf(const Bytes& bytes) {
  return Hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

GenerateRequest FullRequest() {
  GenerateRequest m;
  m.request_id = "r-1";
  m.model = "m";
  m.prompt = {1, 2, 300000};
  m.sampling.temperature = 0.5;
  m.sampling.top_k = -1;
  m.sampling.seed = -7;
  m.sampling.logit_bias = {{5, 1.5}, {9, -100.0}};
  m.sampling.allowed_token_ids = {3};
  m.sampling.bad_words = {{1, 2}, {}};
  m.n = 3;
  m.max_tokens = 0;
  m.stop_token_ids = {2};
  m.ignore_eos = true;
  m.logprobs = 2;
  m.cache_salt = "s";
  m.priority = -2;
  m.kv_transfer_params = R"({"do_remote_decode":true})";
  m.trace_id = "t";
  return m;
}

TEST(Messages, RequestSurvives) {
  const GenerateRequest m = FullRequest();
  const auto back = DecodeGenerateRequest(Encode(m));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->request_id, m.request_id);
  EXPECT_EQ(back->prompt, m.prompt);
  EXPECT_EQ(back->sampling.temperature, 0.5);
  EXPECT_EQ(back->sampling.top_p, 1.0);
  EXPECT_EQ(back->sampling.seed, -7);
  EXPECT_EQ(back->sampling.logit_bias, m.sampling.logit_bias);
  EXPECT_EQ(back->sampling.bad_words, m.sampling.bad_words);
  EXPECT_EQ(back->n, 3);
  EXPECT_EQ(back->max_tokens, 0);
  EXPECT_TRUE(back->ignore_eos);
  EXPECT_EQ(back->logprobs, 2);
  EXPECT_EQ(back->prompt_logprobs, -1);
  EXPECT_EQ(back->kv_transfer_params, m.kv_transfer_params);
  EXPECT_EQ(Encode(*back), Encode(m));
}

TEST(Messages, ItemSurvives) {
  GenerateItem m;
  m.choice = 2;
  m.tokens = {7, 8};
  m.logprobs = {{7, -0.5f, 1, {{7, -0.5f}, {9, -2.0f}}}, {8, -1.0f, 3, {}}};
  m.finish = FinishReason::kStop;
  m.stop_token = 0;
  m.pulled_bytes = int64_t{1} << 40;
  m.pull_transport = "shm";
  const auto back = DecodeGenerateItem(Encode(m));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->tokens, m.tokens);
  ASSERT_EQ(back->logprobs.size(), 2u);
  EXPECT_EQ(back->logprobs[0].top, m.logprobs[0].top);
  EXPECT_EQ(back->finish, FinishReason::kStop);
  EXPECT_EQ(back->stop_token, 0);
  EXPECT_EQ(back->pulled_bytes, m.pulled_bytes);
  EXPECT_EQ(Encode(*back), Encode(m));
}

TEST(Messages, InstanceSurvives) {
  Instance m;
  m.id = UINT64_MAX;
  m.ns = "dynamo";
  m.address = "127.0.0.1:9";
  m.card.name = "n";
  m.card.aliases = {"a", "b"};
  m.card.max_model_len = 2048;
  m.card.weights_digest = "ff";
  const auto back = DecodeInstance(Encode(m));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->id, m.id);
  EXPECT_EQ(back->card.aliases, m.card.aliases);
  EXPECT_EQ(Encode(*back), Encode(m));
}

// Frames of protocol 1.0. They must stay readable and unchanged within the major version.
TEST(Messages, GoldenFrames) {
  GenerateItem item;
  item.tokens = {7, 300};
  item.finish = FinishReason::kLength;
  EXPECT_EQ(HexOf(Encode(item)), "82a6746f6b656e739207cd012ca666696e69736802");
  EXPECT_EQ(HexOf(Encode(ArtifactRequest{"ab"})), "81a6646967657374a26162");
  EXPECT_EQ(HexOf(Encode(ReleaseRequest{"r"})), "81aa726571756573745f6964a172");
  GenerateRequest request;
  request.request_id = "r";
  request.prompt = {1};
  request.sampling.seed = 5;
  EXPECT_EQ(HexOf(Encode(request)),
            "83aa726571756573745f6964a172a670726f6d70749101a873616d706c696e6781a47365656405");
}

TEST(Messages, IgnoresUnknownFieldsAndReasons) {
  Bytes bytes;
  MsgpackWriter writer(bytes);
  writer.Map(3);
  writer.Str("future");
  writer.Array(2);
  writer.Map(1);
  writer.Str("x");
  writer.Nil();
  writer.Int(1);
  writer.Str("tokens");
  writer.Array(1);
  writer.Int(4);
  writer.Str("finish");
  writer.Int(77);
  const auto item = DecodeGenerateItem(bytes);
  ASSERT_TRUE(item.has_value()) << item.error().message;
  EXPECT_EQ(item->tokens, std::vector<TokenId>{4});
  EXPECT_EQ(item->finish, FinishReason::kError);
}

TEST(Messages, RefusesDamage) {
  const Bytes whole = Encode(FullRequest());
  for (size_t cut = 0; cut < whole.size(); ++cut)
    EXPECT_FALSE(DecodeGenerateRequest(std::span(whole).first(cut)).has_value()) << cut;
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(DecodeGenerateRequest(longer).has_value());
}

}  // namespace
}  // namespace tandem::wire
