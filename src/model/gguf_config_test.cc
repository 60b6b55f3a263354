// What the reader makes of the metadata: model configuration, tensor table and tokenizer.
#include <gtest/gtest.h>

#include "model/checkpoint.h"
#include "model/gguf_builder.h"
#include "model/tokenizer_metadata.h"
#include "model/weight_layout.h"

namespace tandem::model {
namespace {

struct Parsed {
  std::vector<std::byte> file;
  Result<GgufView> view;

  explicit Parsed(const GgufBuilder& builder)
      : file(builder.Build()), view(GgufView::Parse(file, "m.gguf")) {
    EXPECT_TRUE(view) << view.error().message;
  }
};

GgufBuilder BaseKeys(std::string_view without = "") {
  GgufBuilder builder;
  builder.String("general.architecture", "llama").String("general.name", "Small");
  const auto number = [&](std::string_view key, uint32_t value) {
    if (key != without) builder.U32(fmt::format("llama.{}", key), value);
  };
  number("block_count", 1);
  number("context_length", 128);
  number("embedding_length", 16);
  number("feed_forward_length", 24);
  number("attention.head_count", 4);
  number("attention.head_count_kv", 2);
  number("rope.dimension_count", 4);
  if (without != "epsilon") builder.F32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  return builder;
}

GgufBuilder& AddTensors(GgufBuilder& builder, std::string_view without = "") {
  const auto add = [&](std::string_view name, uint64_t inputs, uint64_t rows) {
    if (name != without) builder.Matrix(name, inputs, rows);
  };
  add("token_embd.weight", 16, 10);
  add("output_norm.weight", 16, 1);
  add("blk.0.attn_norm.weight", 16, 1);
  add("blk.0.attn_q.weight", 16, 16);
  add("blk.0.attn_k.weight", 16, 8);
  add("blk.0.attn_v.weight", 16, 8);
  add("blk.0.attn_output.weight", 16, 16);
  add("blk.0.ffn_norm.weight", 16, 1);
  add("blk.0.ffn_gate.weight", 16, 24);
  add("blk.0.ffn_up.weight", 16, 24);
  add("blk.0.ffn_down.weight", 24, 16);
  return builder;
}

// The description of a parsed file, and whether its tensors are those of the model.
Result<ModelConfig> ReadModelConfig(const GgufView& view) {
  TRY_ASSIGN(const auto checkpoint, Checkpoint::Of(view));
  return checkpoint->config();
}

Status CheckTensors(const GgufView& view) {
  TRY_ASSIGN(const auto checkpoint, Checkpoint::Of(view));
  TRY(LayOutWeights(*checkpoint));
  return {};
}

std::string ConfigError(GgufBuilder builder) {
  const Parsed parsed(AddTensors(builder));
  const Result<ModelConfig> config = ReadModelConfig(*parsed.view);
  return config ? "" : config.error().message;
}

void ExpectConfigError(const GgufBuilder& builder, std::string_view part) {
  const std::string message = ConfigError(builder);
  EXPECT_NE(message.find(part), std::string::npos) << "message: '" << message << "'";
}

TEST(ModelConfig, OfALlama) {
  GgufBuilder builder = BaseKeys();
  builder.F32("llama.rope.freq_base", 5000.0F);
  const Parsed parsed(AddTensors(builder));
  const Result<ModelConfig> config = ReadModelConfig(*parsed.view);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->name, "Small");
  EXPECT_EQ(config->layer_count(), 1);
  EXPECT_EQ(config->embedding, 16);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 4);
  EXPECT_EQ(config->feed_forward, 24);
  EXPECT_EQ(config->vocab, 10);
  EXPECT_EQ(config->rope.base, 5000.0);
  EXPECT_EQ(config->context_length, 128);
  EXPECT_TRUE(CheckTensors(*parsed.view));
}

TEST(ModelConfig, DefaultsOfAbsentKeys) {
  GgufBuilder builder = BaseKeys("attention.head_count_kv");
  const Parsed parsed(AddTensors(builder));
  const Result<ModelConfig> config = ReadModelConfig(*parsed.view);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->rope.base, 10000.0);
  const Status status = CheckTensors(*parsed.view);
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("attn_k.weight is 16 x 8, expected 16 x 16"),
            std::string::npos)
      << status.error().message;
}

TEST(ModelConfig, WhatCannotBeRunIsNamed) {
  GgufBuilder other;
  other.String("general.architecture", "mamba");
  ExpectConfigError(
      other, "architecture 'mamba' is not supported by the native engine (supported: llama, qwen2");
  ExpectConfigError(GgufBuilder(), "'general.architecture' is missing");
  ExpectConfigError(BaseKeys().U32("llama.expert_count", 8), "expert_used_count' is missing");
  ExpectConfigError(BaseKeys().String("llama.rope.scaling.type", "bent"), "is 'bent'");
  ExpectConfigError(BaseKeys().Matrix("rope_freqs.weight", 1, 1),
                    "rope_freqs.weight has 0, possible is above 0");
  ExpectConfigError(
      BaseKeys("feed_forward_length")
          .Array("llama.feed_forward_length", GgufType::kUint32, std::vector<uint32_t>{24}),
      "differs from layer to layer");
}

TEST(ModelConfig, ValuesThatCannotBeAreNamed) {
  ExpectConfigError(BaseKeys("block_count"), "'llama.block_count' is missing");
  ExpectConfigError(BaseKeys("block_count").U32("llama.block_count", 0),
                    "'llama.block_count' is 0");
  ExpectConfigError(BaseKeys("attention.head_count_kv").U32("llama.attention.head_count_kv", 3),
                    "4 attention heads cannot share 3");
  ExpectConfigError(BaseKeys("attention.head_count").U32("llama.attention.head_count", 6),
                    "width 16 is not a multiple of 6");
  ExpectConfigError(BaseKeys("rope.dimension_count").U32("llama.rope.dimension_count", 3),
                    "must be even");
  ExpectConfigError(BaseKeys("epsilon"), "layer_norm_rms_epsilon' is missing");
  ExpectConfigError(BaseKeys("epsilon").F32("llama.attention.layer_norm_rms_epsilon", -1.0F),
                    "layer_norm_rms_epsilon' is -1");
  ExpectConfigError(BaseKeys().U32("llama.vocab_size", 11), "'llama.vocab_size' is 11");
  ExpectConfigError(BaseKeys().F32("llama.rope.freq_base", 0.0F), "rope.freq_base' is 0");
}

TEST(ModelConfig, TensorsMustBeExactlyThoseOfTheModel) {
  GgufBuilder missing = BaseKeys();
  const Parsed without(AddTensors(missing, "blk.0.ffn_up.weight"));
  const Status absent = CheckTensors(*without.view);
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().message.find("blk.0.ffn_up.weight is missing"), std::string::npos);

  GgufBuilder more = BaseKeys();
  AddTensors(more).Matrix("blk.0.attn_sinks.weight", 16, 1);
  const Parsed with(more);
  const Status extra = CheckTensors(*with.view);
  ASSERT_FALSE(extra);
  EXPECT_EQ(extra.error().code, Code::kUnsupported);
  EXPECT_NE(extra.error().message.find("blk.0.attn_sinks.weight is not part"), std::string::npos);
}

GgufBuilder TokenizerKeys() {
  GgufBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  return builder;
}

TEST(TokenizerMetadata, Everything) {
  GgufBuilder builder = TokenizerKeys();
  builder.String("tokenizer.ggml.pre", "smollm")
      .Array("tokenizer.ggml.token_type", GgufType::kInt32, std::vector<int32_t>{1, 1, 3})
      .Strings("tokenizer.ggml.merges", {"a b"})
      .U32("tokenizer.ggml.bos_token_id", 2)
      .Scalar("tokenizer.ggml.eos_token_id", GgufType::kUint64, uint64_t{1})
      .Scalar("tokenizer.ggml.padding_token_id", GgufType::kInt32, int32_t{-1})
      .Scalar("tokenizer.ggml.add_bos_token", GgufType::kBool, uint8_t{0})
      .String("tokenizer.chat_template", "{{ messages }}")
      .String("tokenizer.chat_template.tool_use", "{{ tools }}");
  const Parsed parsed(builder);
  const Result<TokenizerMetadata> data = ReadTokenizerMetadata(*parsed.view);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->model, "gpt2");
  EXPECT_EQ(data->pre, "smollm");
  EXPECT_EQ(data->tokens, (std::vector<std::string>{"a", "b", "ab"}));
  EXPECT_EQ(data->token_types, (std::vector<int32_t>{1, 1, 3}));
  EXPECT_EQ(data->merges, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(data->bos, 2);
  EXPECT_EQ(data->eos, 1);
  EXPECT_EQ(data->padding, std::nullopt);
  EXPECT_EQ(data->add_bos, false);
  EXPECT_EQ(data->add_eos, std::nullopt);
  EXPECT_EQ(data->chat_template, "{{ messages }}");
  EXPECT_EQ(data->named_chat_templates.at("tool_use"), "{{ tools }}");
}

TEST(TokenizerMetadata, ContradictionsAreNamed) {
  const auto error_of = [](const GgufBuilder& builder) {
    const Parsed parsed(builder);
    const Result<TokenizerMetadata> data = ReadTokenizerMetadata(*parsed.view);
    return data ? std::string() : data.error().message;
  };
  EXPECT_EQ(error_of(TokenizerKeys()), "");
  EXPECT_NE(error_of(GgufBuilder()).find("'tokenizer.ggml.model' is missing"), std::string::npos);
  EXPECT_NE(
      error_of(GgufBuilder().String("tokenizer.ggml.model", "gpt2")).find("tokens' is missing"),
      std::string::npos);
  EXPECT_NE(error_of(TokenizerKeys().Array("tokenizer.ggml.token_type", GgufType::kInt32,
                                           std::vector<int32_t>{1}))
                .find("has 1 entries, the vocabulary has 3"),
            std::string::npos);
  EXPECT_NE(error_of(TokenizerKeys().U32("tokenizer.ggml.eos_token_id", 3)).find("is 3, the vocab"),
            std::string::npos);
  EXPECT_NE(error_of(TokenizerKeys().String("tokenizer.chat_template", "\xFF")).find("not UTF-8"),
            std::string::npos);
  EXPECT_NE(
      error_of(TokenizerKeys().Strings("tokenizer.ggml.merges", {"\xC0\x80"})).find("not UTF-8"),
      std::string::npos);
}

}  // namespace
}  // namespace tandem::model
