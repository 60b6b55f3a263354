#include "model/gguf_config.h"

#include <cmath>
#include <cstring>

#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

// Far above any published model; products of these fit 64 bits easily.
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxSize = 1 << 20;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxVocab = 1 << 22;
constexpr int64_t kMaxContext = (int64_t{1} << 31) - 1;
constexpr std::string_view kTokenTable = "token_embd.weight";

using Scaling = RopeConfig::Scaling;

Result<int> HeadSize(const GgufConfig& file, std::string_view name, int64_t limit,
                     std::optional<int64_t> fallback = {}) {
  TRY_ASSIGN(const int64_t size, file.Int(name, 1, limit, fallback));
  return static_cast<int>(size);
}

Status ReadSizes(const GgufConfig& file, ModelConfig& config) {
  TRY_ASSIGN(const std::string_view name, file.file().String("general.name", ""));
  config.name = Printable(name);
  TRY_ASSIGN(const int64_t layers, file.Int("block_count", 1, kMaxLayers));
  config.layers.resize(static_cast<size_t>(layers));
  TRY_ASSIGN(config.embedding, file.Size("embedding_length"));
  TRY_ASSIGN(config.feed_forward, file.Size("feed_forward_length"));
  TRY_ASSIGN(config.context_length, file.Int("context_length", 1, kMaxContext));
  TRY_ASSIGN(const double epsilon, file.Float("attention.layer_norm_rms_epsilon", 1e-12, 1.0));
  config.rms_epsilon = static_cast<float>(epsilon);
  return {};
}

Status ReadHeads(const GgufConfig& file, ModelConfig& config) {
  TRY_ASSIGN(config.heads, HeadSize(file, "attention.head_count", kMaxHeads));
  TRY_ASSIGN(config.kv_heads,
             HeadSize(file, "attention.head_count_kv", kMaxHeads, int64_t{config.heads}));
  if (config.heads % config.kv_heads != 0)
    return Err(Code::kCorrupt, "{}: {} attention heads cannot share {} key/value heads evenly",
               file.label(), config.heads, config.kv_heads);
  if (!file.Has("attention.key_length") && config.embedding % config.heads != 0)
    return Err(Code::kCorrupt, "{}: width {} is not a multiple of {} attention heads", file.label(),
               config.embedding, config.heads);
  TRY_ASSIGN(config.head_dim, HeadSize(file, "attention.key_length", kMaxHeadDim,
                                       int64_t{config.embedding / config.heads}));
  config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  return {};
}

Status ReadScaling(const GgufConfig& file, const ModelConfig& config, RopeConfig& rope) {
  TRY_ASSIGN(const std::string name, file.String("rope.scaling.type", "none"));
  TRY_ASSIGN(rope.original_context, file.Int("rope.scaling.original_context_length", 1, kMaxContext,
                                             config.context_length));
  TRY_ASSIGN(rope.factor, file.Float("rope.scaling.factor", 0, 1e6, 1.0));
  if (rope.factor < 1) rope.factor = 1;
  TRY_ASSIGN(const double attention, file.Float("rope.scaling.attn_factor", 0, 1e3, 1.0));
  if (name == "linear") {
    rope.scaling = Scaling::kLinear;
  } else if (name == "yarn") {
    rope.scaling = Scaling::kYarn;
    rope.attention_factor = attention * (1.0 + 0.1 * std::log(rope.factor));
    TRY_ASSIGN(rope.beta_fast, file.Float("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32.0));
    TRY_ASSIGN(rope.beta_slow, file.Float("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1.0));
  } else if (name != "none" && name != "longrope") {
    return Err(Code::kUnsupported,
               "{}: key '{}' is '{}', which is not supported (supported: none, linear, yarn, "
               "longrope)",
               file.label(), file.Key("rope.scaling.type"), Printable(name));
  }
  return {};
}

// Divisors of the frequencies, as tensors beside the weights.
Status ReadDivisors(const GgufConfig& file, const ModelConfig& config, RopeConfig& rope) {
  TRY_ASSIGN(std::vector<float> divisors, file.Factors("rope_freqs.weight"));
  TRY_ASSIGN(rope.short_divisors, file.Factors("rope_factors_short.weight"));
  TRY_ASSIGN(rope.long_divisors, file.Factors("rope_factors_long.weight"));
  if (!rope.short_divisors.empty()) {
    rope.scaling = Scaling::kLongRope;
    TRY_ASSIGN(rope.attention_factor, file.Float("rope.scaling.attn_factor", 0, 1e3, 1.0));
  } else if (!divisors.empty()) {
    rope.scaling = Scaling::kLongRope;
    rope.original_context = config.context_length;
    rope.short_divisors = rope.long_divisors = std::move(divisors);
  }
  const auto pairs = static_cast<size_t>(rope.dims / 2);
  if (rope.scaling == Scaling::kLongRope &&
      (rope.short_divisors.size() != pairs || rope.long_divisors.size() != pairs))
    return Err(Code::kCorrupt, "{}: the rope factors have {} and {} numbers, not {}", file.label(),
               rope.short_divisors.size(), rope.long_divisors.size(), pairs);
  return {};
}

Status ReadRope(const GgufConfig& file, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  TRY_ASSIGN(rope.dims,
             HeadSize(file, "rope.dimension_count", kMaxHeadDim, int64_t{config.head_dim}));
  if (rope.dims > config.head_dim || rope.dims % 2 != 0)
    return Err(Code::kCorrupt, "{}: key '{}' is {}: it must be even and at most the head's {}",
               file.label(), file.Key("rope.dimension_count"), rope.dims, config.head_dim);
  TRY_ASSIGN(rope.base, file.Float("rope.freq_base", 1.0, 1e12, 10000.0));
  TRY(ReadScaling(file, config, rope));
  return ReadDivisors(file, config, rope);
}

// The embedding table decides; the optional key must agree with it.
Status ReadVocab(const GgufConfig& file, ModelConfig& config) {
  const Tensor* table = file.file().FindTensor(kTokenTable);
  if (table == nullptr)
    return Err(Code::kCorrupt, "{}: tensor {} is missing", file.label(), kTokenTable);
  const int64_t rows = table->Rows();
  if (rows < 1 || rows > kMaxVocab)
    return Err(Code::kCorrupt, "{}: tensor {} has {} rows, possible is 1 to {}", file.label(),
               kTokenTable, rows, kMaxVocab);
  config.vocab = static_cast<int>(rows);
  TRY_ASSIGN(const int64_t declared, file.Int("vocab_size", 1, kMaxVocab, rows));
  if (declared != rows)
    return Err(Code::kCorrupt, "{}: key '{}' is {}, tensor {} has {} rows", file.label(),
               file.Key("vocab_size"), declared, kTokenTable, rows);
  return {};
}

Status ReadExperts(const GgufConfig& file, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  TRY_ASSIGN(const int64_t experts, file.Int("expert_count", 0, 1 << 12, 0));
  if (experts == 0) return {};
  moe.experts = static_cast<int>(experts);
  TRY_ASSIGN(const int64_t used, file.Int("expert_used_count", 1, experts));
  moe.used = static_cast<int>(used);
  TRY_ASSIGN(moe.inner, file.Size("expert_feed_forward_length", config.feed_forward));
  TRY_ASSIGN(const double scale, file.Float("expert_weights_scale", 0, 1e6, 1.0));
  moe.scale = scale == 0 ? 1.0F : static_cast<float>(scale);
  TRY_ASSIGN(moe.normalize, file.Bool("expert_weights_norm", false));
  TRY_ASSIGN(const int64_t gate, file.Int("expert_gating_func", 0, 2, 1));
  moe.sigmoid = gate == 2;
  for (size_t i = 0; i < config.layers.size(); ++i)
    config.layers[i].experts = file.HasTensor(fmt::format("blk.{}.ffn_gate_inp.weight", i));
  return {};
}

}  // namespace

Result<GgufConfig> GgufConfig::Of(const GgufView& file) {
  GgufConfig config(file);
  TRY_ASSIGN(const std::string_view architecture, file.String("general.architecture"));
  config.architecture_ = Printable(architecture);
  return config;
}

std::string GgufConfig::Key(std::string_view name) const {
  return fmt::format("{}.{}", architecture_, name);
}

Result<int64_t> GgufConfig::Int(std::string_view name, int64_t low, int64_t high,
                                std::optional<int64_t> fallback) const {
  const std::string key = Key(name);
  const GgufValue* value = file_.Find(key);
  if (value != nullptr && value->type == GgufType::kArray)
    return Err(Code::kUnsupported,
               "{}: key '{}' differs from layer to layer, which is not supported", label(), key);
  TRY_ASSIGN(const int64_t number, file_.Int(key, fallback));
  if (number < low || number > high)
    return Err(Code::kCorrupt, "{}: key '{}' is {}, possible is {} to {}", label(), key, number,
               low, high);
  return number;
}

Result<int> GgufConfig::Size(std::string_view name, std::optional<int> fallback) const {
  TRY_ASSIGN(const int64_t size,
             Int(name, 1, kMaxSize, fallback ? std::optional<int64_t>(*fallback) : std::nullopt));
  return static_cast<int>(size);
}

Result<double> GgufConfig::Float(std::string_view name, double low, double high,
                                 std::optional<double> fallback) const {
  const std::string key = Key(name);
  TRY_ASSIGN(const double number, file_.Float(key, fallback));
  if (!(number >= low && number <= high))
    return Err(Code::kCorrupt, "{}: key '{}' is {}, possible is {} to {}", label(), key, number,
               low, high);
  return number;
}

Result<bool> GgufConfig::Bool(std::string_view name, bool fallback) const {
  return file_.Bool(Key(name), fallback);
}

Result<std::string> GgufConfig::String(std::string_view name, std::string_view fallback) const {
  TRY_ASSIGN(const std::string_view text, file_.String(Key(name), fallback));
  return std::string(text);
}

Result<std::vector<float>> GgufConfig::Factors(std::string_view name) const {
  std::vector<float> factors;
  const Tensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) return factors;
  if (tensor->type != TensorType::kF32 || tensor->Rows() != 1 || tensor->Inputs() > kMaxHeadDim)
    return Err(Code::kUnsupported, "{}: tensor {} is not a vector of float32", label(), name);
  factors.resize(static_cast<size_t>(tensor->Inputs()));
  std::memcpy(factors.data(), tensor->bytes.data(), tensor->bytes.size());
  for (const float factor : factors)
    if (!(factor > 0) || factor > 1e9F)
      return Err(Code::kCorrupt, "{}: tensor {} has {}, possible is above 0 and up to 1e9", label(),
                 name, factor);
  return factors;
}

Result<int> GgufWindow(const GgufConfig& config) {
  TRY_ASSIGN(const int64_t window, config.Int("attention.sliding_window", 0, kMaxContext, 0));
  return static_cast<int>(window);
}

Result<ModelConfig> ReadCommonGguf(const GgufConfig& file) {
  ModelConfig config;
  config.architecture = file.architecture();
  TRY(ReadSizes(file, config));
  TRY(ReadHeads(file, config));
  TRY(ReadRope(file, config));
  TRY(ReadVocab(file, config));
  TRY(ReadExperts(file, config));
  return config;
}

}  // namespace tandem::model
