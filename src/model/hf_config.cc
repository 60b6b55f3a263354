#include "model/hf_config.h"

#include <cmath>

#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

// Far above any published model; products of these fit 64 bits easily.
constexpr int64_t kMaxLayers = 1024;
constexpr int kMaxSize = 1 << 22;
constexpr int64_t kMaxContext = int64_t{1} << 31;

using Scaling = RopeConfig::Scaling;

struct ScalingName {
  std::string_view name;
  Scaling scaling;
};
constexpr ScalingName kScalings[] = {
    {"default", Scaling::kNone},      {"none", Scaling::kNone},     {"linear", Scaling::kLinear},
    {"dynamic", Scaling::kDynamic},   {"llama3", Scaling::kLlama3}, {"yarn", Scaling::kYarn},
    {"longrope", Scaling::kLongRope}, {"su", Scaling::kLongRope},
};

Result<Scaling> ReadScaling(const HfConfig& rope) {
  TRY_ASSIGN(const std::string old_name, rope.String("type", "default"));
  TRY_ASSIGN(const std::string name, rope.String("rope_type", old_name));
  for (const ScalingName& known : kScalings)
    if (known.name == name) return known.scaling;
  return Err(Code::kUnsupported,
             "{}: rope scaling '{}' is not supported (supported: default, linear, dynamic, llama3, "
             "yarn, longrope)",
             rope.label(), Printable(name));
}

double YarnScale(double factor, double weight) {
  return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

// Cosines and sines are multiplied by this (YaRN, arXiv 2309.00071, and DeepSeek's two weights).
Result<double> YarnAttentionFactor(const HfConfig& rope, double factor) {
  if (rope.Has("attention_factor")) return rope.Float("attention_factor", 0, 1e3);
  TRY_ASSIGN(const double mscale, rope.Float("mscale", 0, 1e3, 0.0));
  TRY_ASSIGN(const double all, rope.Float("mscale_all_dim", 0, 1e3, 0.0));
  if (mscale > 0 && all > 0) return YarnScale(factor, mscale) / YarnScale(factor, all);
  return YarnScale(factor, 1.0);
}

Status ReadLongRope(const HfConfig& rope, const ModelConfig& config, RopeConfig& out) {
  TRY_ASSIGN(out.short_divisors, rope.Factors("short_factor"));
  TRY_ASSIGN(out.long_divisors, rope.Factors("long_factor"));
  const auto pairs = static_cast<size_t>(out.dims / 2);
  if (out.short_divisors.size() != pairs || out.long_divisors.size() != pairs)
    return Err(Code::kCorrupt, "{}: short_factor and long_factor have {} and {} numbers, not {}",
               rope.label(), out.short_divisors.size(), out.long_divisors.size(), pairs);
  TRY_ASSIGN(out.factor, rope.Float("factor", 1, 1e6,
                                    std::max(1.0, static_cast<double>(config.context_length) /
                                                      static_cast<double>(out.original_context))));
  const double widened =
      out.factor <= 1 ? 1.0
                      : std::sqrt(1 + std::log(out.factor) /
                                          std::log(static_cast<double>(out.original_context)));
  TRY_ASSIGN(out.attention_factor, rope.Float("attention_factor", 0, 1e3, widened));
  return {};
}

// `rope` is "rope_scaling" or "rope_parameters"; fills all but base and dims.
Status ReadRopeScaling(const HfConfig& file, const HfConfig& rope, const ModelConfig& config,
                       RopeConfig& out) {
  TRY_ASSIGN(out.scaling, ReadScaling(rope));
  if (out.scaling == Scaling::kNone) return {};
  // Phi-3 keeps the length it was first trained for beside, not inside, its factors.
  TRY_ASSIGN(const int64_t beside,
             file.Int("original_max_position_embeddings", 1, kMaxContext, config.context_length));
  TRY_ASSIGN(out.original_context,
             rope.Int("original_max_position_embeddings", 1, kMaxContext, beside));
  if (out.scaling == Scaling::kLongRope) return ReadLongRope(rope, config, out);
  TRY_ASSIGN(out.factor, rope.Float("factor", 1, 1e6));
  TRY_ASSIGN(out.low_freq_factor, rope.Float("low_freq_factor", 1e-6, 1e6, 1.0));
  TRY_ASSIGN(out.high_freq_factor, rope.Float("high_freq_factor", 1e-6, 1e6, 4.0));
  if (out.scaling == Scaling::kLlama3 && out.high_freq_factor <= out.low_freq_factor)
    return Err(Code::kCorrupt, "{}: high_freq_factor {} is not above low_freq_factor {}",
               rope.label(), out.high_freq_factor, out.low_freq_factor);
  TRY_ASSIGN(out.beta_fast, rope.Float("beta_fast", 1e-6, 1e6, 32.0));
  TRY_ASSIGN(out.beta_slow, rope.Float("beta_slow", 1e-6, 1e6, 1.0));
  TRY_ASSIGN(out.truncate, rope.Bool("truncate", true));
  if (out.scaling == Scaling::kYarn) {
    TRY_ASSIGN(out.attention_factor, YarnAttentionFactor(rope, out.factor));
  }
  return {};
}

Status ReadRope(const HfConfig& file, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  TRY_ASSIGN(rope.base, file.Float("rope_theta", 1.0, 1e12, 10000.0));
  TRY_ASSIGN(double part, file.Float("partial_rotary_factor", 1e-6, 1.0, 1.0));
  // Newer configurations keep everything in one object, one per kind of layer where those differ.
  const wire::Json* parameters = file.Find("rope_parameters");
  const wire::Json* kinds = parameters != nullptr ? parameters->Find("full_attention") : nullptr;
  if (kinds != nullptr) parameters = kinds;
  if (parameters == nullptr) parameters = file.Find("rope_scaling");
  std::optional<HfConfig> nested;
  if (parameters != nullptr) {
    if (!parameters->IsObject())
      return Err(Code::kCorrupt, "{}: 'rope_scaling' is not an object", file.label());
    nested.emplace(*parameters, file.label() + ": rope_scaling");
    TRY_ASSIGN(rope.base, nested->Float("rope_theta", 1.0, 1e12, rope.base));
    TRY_ASSIGN(part, nested->Float("partial_rotary_factor", 1e-6, 1.0, part));
  }
  rope.dims = static_cast<int>(config.head_dim * part);
  if (rope.dims < 2 || rope.dims % 2 != 0)
    return Err(Code::kCorrupt, "{}: {} dimensions of a head are turned: it must be an even number",
               file.label(), rope.dims);
  if (nested) TRY(ReadRopeScaling(file, *nested, config, rope));
  return {};
}

Status ReadHeads(const HfConfig& file, ModelConfig& config) {
  TRY_ASSIGN(config.heads, file.Size("num_attention_heads"));
  TRY_ASSIGN(config.kv_heads, file.Size("num_key_value_heads", config.heads));
  if (config.heads % config.kv_heads != 0)
    return Err(Code::kCorrupt, "{}: {} attention heads cannot share {} key/value heads evenly",
               file.label(), config.heads, config.kv_heads);
  if (!file.Has("head_dim") && config.embedding % config.heads != 0)
    return Err(Code::kCorrupt, "{}: hidden_size {} is not a multiple of {} attention heads",
               file.label(), config.embedding, config.heads);
  TRY_ASSIGN(config.head_dim, file.Size("head_dim", config.embedding / config.heads));
  config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  return {};
}

Status ReadLayers(const HfConfig& file, ModelConfig& config) {
  TRY_ASSIGN(const int64_t layers, file.Int("num_hidden_layers", 1, kMaxLayers));
  config.layers.resize(static_cast<size_t>(layers));
  const wire::Json* types = file.Find("layer_types");
  if (types == nullptr) return {};
  if (!types->IsArray() || types->AsArray().size() < config.layers.size())
    return Err(Code::kCorrupt, "{}: 'layer_types' does not name all {} layers", file.label(),
               layers);
  TRY_ASSIGN(const int window, HfWindow(file));
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const wire::Json& type = types->AsArray()[i];
    const std::string_view name = type.IsString() ? std::string_view(type.AsString()) : "";
    if (name != "full_attention" && name != "sliding_attention")
      return Err(Code::kUnsupported, "{}: layer type '{}' of layer {} is not supported",
                 file.label(), Printable(name), i);
    if (name == "full_attention") continue;
    if (window == 0)
      return Err(Code::kCorrupt, "{}: layer {} slides, but 'sliding_window' is not given",
                 file.label(), i);
    config.layers[i].window = window;
  }
  return {};
}

Status ReadActivation(const HfConfig& file, ModelConfig& config) {
  TRY_ASSIGN(const std::string common, file.String("hidden_act", "silu"));
  TRY_ASSIGN(const std::string name, file.String("hidden_activation", common));
  if (name != "silu" && name != "gelu_pytorch_tanh" && name != "gelu_new")
    return Err(Code::kUnsupported,
               "{}: activation '{}' is not supported (supported: silu, gelu_pytorch_tanh)",
               file.label(), Printable(name));
  config.activation = name == "silu" ? Activation::kSilu : Activation::kGeluTanh;
  return {};
}

}  // namespace

const wire::Json* HfConfig::Find(std::string_view key) const {
  const wire::Json* value = json_.Find(key);
  return value == nullptr || value->IsNull() ? nullptr : value;
}

std::unexpected<Error> HfConfig::Bad(std::string_view key, const wire::Json& value,
                                     std::string_view wanted) const {
  std::string text = wire::ToJsonText(value);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return Err(Code::kCorrupt, "{}: '{}' is {}, possible is {}", label_, key, Printable(text),
             wanted);
}

Result<int64_t> HfConfig::Int(std::string_view key, int64_t low, int64_t high,
                              std::optional<int64_t> fallback) const {
  const wire::Json* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Err(Code::kCorrupt, "{}: '{}' is missing", label_, key);
  }
  // Some writers give whole numbers as 4096.0.
  double number = value->IsNumber() ? value->AsDouble() : std::nan("");
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high)) ||
      number != std::floor(number))
    return Bad(key, *value, fmt::format("{} to {}", low, high));
  return static_cast<int64_t>(number);
}

Result<int> HfConfig::Size(std::string_view key, std::optional<int> fallback) const {
  TRY_ASSIGN(const int64_t size,
             Int(key, 1, kMaxSize, fallback ? std::optional<int64_t>(*fallback) : std::nullopt));
  return static_cast<int>(size);
}

Result<double> HfConfig::Float(std::string_view key, double low, double high,
                               std::optional<double> fallback) const {
  const wire::Json* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Err(Code::kCorrupt, "{}: '{}' is missing", label_, key);
  }
  if (!value->IsNumber() || !(value->AsDouble() >= low && value->AsDouble() <= high))
    return Bad(key, *value, fmt::format("{} to {}", low, high));
  return value->AsDouble();
}

Result<bool> HfConfig::Bool(std::string_view key, std::optional<bool> fallback) const {
  const wire::Json* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return Err(Code::kCorrupt, "{}: '{}' is missing", label_, key);
  }
  if (!value->IsBool()) return Bad(key, *value, "true or false");
  return value->AsBool();
}

Result<std::string> HfConfig::String(std::string_view key,
                                     std::optional<std::string> fallback) const {
  const wire::Json* value = Find(key);
  if (value == nullptr) {
    if (fallback) return *std::move(fallback);
    return Err(Code::kCorrupt, "{}: '{}' is missing", label_, key);
  }
  if (!value->IsString()) return Bad(key, *value, "a text");
  return value->AsString();
}

Result<std::vector<float>> HfConfig::Factors(std::string_view key) const {
  std::vector<float> factors;
  const wire::Json* value = Find(key);
  if (value == nullptr) return factors;
  if (!value->IsArray()) return Bad(key, *value, "a list of numbers");
  for (const wire::Json& item : value->AsArray()) {
    if (!item.IsNumber() || !(item.AsDouble() > 0) || item.AsDouble() > 1e9)
      return Bad(key, item, "above 0 and up to 1e9");
    factors.push_back(static_cast<float>(item.AsDouble()));
  }
  return factors;
}

Result<int> HfWindow(const HfConfig& config) {
  if (!config.Has("sliding_window")) return 0;
  TRY_ASSIGN(const int64_t window, config.Int("sliding_window", 1, kMaxContext));
  return static_cast<int>(std::min<int64_t>(window, kMaxContext - 1));
}

Result<ModelConfig> ReadCommonHf(const HfConfig& file) {
  ModelConfig config;
  TRY_ASSIGN(config.architecture, file.String("model_type"));
  TRY_ASSIGN(config.embedding, file.Size("hidden_size"));
  TRY_ASSIGN(config.feed_forward, file.Size("intermediate_size"));
  TRY_ASSIGN(config.vocab, file.Size("vocab_size"));
  TRY_ASSIGN(config.context_length, file.Int("max_position_embeddings", 1, kMaxContext, 2048));
  TRY_ASSIGN(const double epsilon, file.Float("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config.rms_epsilon = static_cast<float>(epsilon);
  TRY_ASSIGN(config.tied_head, file.Bool("tie_word_embeddings", false));
  config.stored.half_split_rope = true;
  TRY(ReadHeads(file, config));
  TRY(ReadLayers(file, config));
  TRY(ReadRope(file, config));
  TRY(ReadActivation(file, config));
  return config;
}

}  // namespace tandem::model
