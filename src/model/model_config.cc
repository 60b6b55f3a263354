#include "model/model_config.h"

#include <array>
#include <string>
#include <unordered_set>

#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

constexpr std::string_view kArchitecture = "llama";
// Far above any published model; products of these fit 64 bits easily.
constexpr uint64_t kMaxLayers = 1024;
constexpr uint64_t kMaxWidth = 1 << 20;
constexpr uint64_t kMaxHeads = 1024;
constexpr uint64_t kMaxHeadDim = 1024;
constexpr uint64_t kMaxVocab = 1 << 22;
constexpr uint64_t kMaxContext = uint64_t{1} << 31;

class ConfigReader {
 public:
  explicit ConfigReader(const GgufView& file) : file_(file) {}

  Result<ModelConfig> Read() {
    TRY(ReadIdentity());
    TRY(RefuseUnsupported());
    TRY(ReadSizes());
    TRY(ReadHeads());
    TRY(ReadRope());
    TRY(ReadVocab());
    return config_;
  }

 private:
  std::string Key(std::string_view name) const { return fmt::format("{}.{}", kArchitecture, name); }

  // An integer key between 1 and `limit`; per-layer arrays are refused by name.
  Result<int> Size(std::string_view name, uint64_t limit, std::optional<uint64_t> fallback = {}) {
    const std::string key = Key(name);
    const GgufValue* value = file_.Find(key);
    if (value != nullptr && value->type == GgufType::kArray)
      return Err(Code::kUnsupported,
                 "{}: key '{}' differs from layer to layer, which is not supported", file_.label(),
                 key);
    TRY_ASSIGN(const uint64_t size, file_.Uint(key, fallback));
    if (size < 1 || size > limit)
      return Err(Code::kCorrupt, "{}: key '{}' is {}, possible is 1 to {}", file_.label(), key,
                 size, limit);
    return static_cast<int>(size);
  }

  Status ReadIdentity() {
    TRY_ASSIGN(const std::string_view architecture, file_.String("general.architecture"));
    if (architecture != kArchitecture)
      return Err(Code::kUnsupported,
                 "{}: architecture '{}' is not supported by the native engine (supported: {})",
                 file_.label(), Printable(architecture), kArchitecture);
    config_.architecture = kArchitecture;
    TRY_ASSIGN(const std::string_view name, file_.String("general.name", ""));
    config_.name = Printable(name);
    return {};
  }

  Status RefuseUnsupported() {
    TRY_ASSIGN(const uint64_t parts, file_.Uint("split.count", 1));
    if (parts > 1)
      return Err(
          Code::kUnsupported,
          "{}: the model is split into {} files, which is not supported: merge them into one",
          file_.label(), parts);
    TRY_ASSIGN(const uint64_t experts, file_.Uint(Key("expert_count"), 0));
    if (experts > 0)
      return Err(Code::kUnsupported, "{}: key '{}' is {}: mixtures of experts are not supported",
                 file_.label(), Key("expert_count"), experts);
    if (file_.FindTensor("rope_freqs.weight") != nullptr)
      return Err(Code::kUnsupported,
                 "{}: tensor rope_freqs.weight (the long-context position scaling of Llama 3.1 and "
                 "later) is not supported: use a model without it",
                 file_.label());
    TRY_ASSIGN(const std::string_view scaling, file_.String(Key("rope.scaling.type"), "none"));
    if (scaling != "none")
      return Err(Code::kUnsupported, "{}: key '{}' is '{}': only 'none' is supported",
                 file_.label(), Key("rope.scaling.type"), Printable(scaling));
    return {};
  }

  Status ReadSizes() {
    TRY_ASSIGN(config_.layers, Size("block_count", kMaxLayers));
    TRY_ASSIGN(config_.embedding, Size("embedding_length", kMaxWidth));
    TRY_ASSIGN(config_.feed_forward, Size("feed_forward_length", kMaxWidth));
    TRY_ASSIGN(const int context, Size("context_length", kMaxContext - 1));
    config_.context_length = context;
    const std::string key = Key("attention.layer_norm_rms_epsilon");
    TRY_ASSIGN(const double epsilon, file_.Float(key));
    if (!(epsilon > 0.0) || epsilon > 1.0)
      return Err(Code::kCorrupt, "{}: key '{}' is {}, possible is above 0 and up to 1",
                 file_.label(), key, epsilon);
    config_.rms_epsilon = static_cast<float>(epsilon);
    return {};
  }

  Status ReadHeads() {
    TRY_ASSIGN(config_.heads, Size("attention.head_count", kMaxHeads));
    TRY_ASSIGN(config_.kv_heads,
               Size("attention.head_count_kv", kMaxHeads, static_cast<uint64_t>(config_.heads)));
    if (config_.heads % config_.kv_heads != 0)
      return Err(Code::kCorrupt, "{}: {} attention heads cannot share {} key/value heads evenly",
                 file_.label(), config_.heads, config_.kv_heads);
    if (file_.Find(Key("attention.key_length")) == nullptr &&
        config_.embedding % config_.heads != 0)
      return Err(Code::kCorrupt, "{}: width {} is not a multiple of {} attention heads",
                 file_.label(), config_.embedding, config_.heads);
    TRY_ASSIGN(config_.head_dim, Size("attention.key_length", kMaxHeadDim,
                                      static_cast<uint64_t>(config_.embedding / config_.heads)));
    TRY_ASSIGN(const int value_dim, Size("attention.value_length", kMaxHeadDim,
                                         static_cast<uint64_t>(config_.head_dim)));
    if (value_dim != config_.head_dim)
      return Err(Code::kUnsupported,
                 "{}: key length {} and value length {} differ, which is not supported",
                 file_.label(), config_.head_dim, value_dim);
    return {};
  }

  Status ReadRope() {
    TRY_ASSIGN(config_.rope_dims,
               Size("rope.dimension_count", kMaxHeadDim, static_cast<uint64_t>(config_.head_dim)));
    if (config_.rope_dims > config_.head_dim || config_.rope_dims % 2 != 0)
      return Err(Code::kCorrupt, "{}: key '{}' is {}: it must be even and at most the head's {}",
                 file_.label(), Key("rope.dimension_count"), config_.rope_dims, config_.head_dim);
    TRY_ASSIGN(const double base, file_.Float(Key("rope.freq_base"), 10000.0));
    if (!(base > 1.0) || base > 1e12)
      return Err(Code::kCorrupt, "{}: key '{}' is {}, possible is above 1 and up to 1e12",
                 file_.label(), Key("rope.freq_base"), base);
    config_.rope_base = static_cast<float>(base);
    return {};
  }

  // The embedding table decides; the optional key must agree with it.
  Status ReadVocab() {
    const Tensor* table = file_.FindTensor("token_embd.weight");
    if (table == nullptr)
      return Err(Code::kCorrupt, "{}: tensor token_embd.weight is missing", file_.label());
    const int64_t rows = table->Rows();
    if (rows < 1 || rows > static_cast<int64_t>(kMaxVocab))
      return Err(Code::kCorrupt, "{}: tensor token_embd.weight has {} rows, possible is 1 to {}",
                 file_.label(), rows, kMaxVocab);
    config_.vocab = static_cast<int>(rows);
    TRY_ASSIGN(const int declared,
               Size("vocab_size", kMaxVocab, static_cast<uint64_t>(config_.vocab)));
    if (declared != config_.vocab)
      return Err(Code::kCorrupt, "{}: key '{}' is {}, tensor token_embd.weight has {} rows",
                 file_.label(), Key("vocab_size"), declared, rows);
    return {};
  }

  const GgufView& file_;
  ModelConfig config_;
};

struct ExpectedTensor {
  std::string_view name;  // after "blk.N." for those of a layer
  int64_t inputs;
  int64_t rows;
};

class TensorChecker {
 public:
  explicit TensorChecker(const GgufView& file) : file_(file) {}

  Status Check(const std::string& name, int64_t inputs, int64_t rows) {
    const Tensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr)
      return Err(Code::kCorrupt, "{}: tensor {} is missing", file_.label(), name);
    if (tensor->Inputs() != inputs || tensor->Rows() != rows)
      return Err(Code::kCorrupt, "{}: tensor {} is {} x {}, expected {} x {}", file_.label(), name,
                 tensor->Inputs(), tensor->Rows(), inputs, rows);
    known_.insert(name);
    return {};
  }

  // A tensor nobody reads would mean that the model computes something else than we do.
  Status RefuseOthers() const {
    for (const Tensor& tensor : file_.tensors())
      if (!known_.contains(std::string(tensor.name)))
        return Err(Code::kUnsupported,
                   "{}: tensor {} is not part of the supported form of architecture '{}'",
                   file_.label(), Printable(tensor.name), kArchitecture);
    return {};
  }

 private:
  const GgufView& file_;
  std::unordered_set<std::string> known_;
};

}  // namespace

Result<ModelConfig> ReadModelConfig(const GgufView& file) { return ConfigReader(file).Read(); }

Status CheckTensors(const GgufView& file, const ModelConfig& config) {
  const int64_t width = config.embedding;
  const int64_t queries = int64_t{config.heads} * config.head_dim;
  const int64_t keys = int64_t{config.kv_heads} * config.head_dim;
  const int64_t inner = config.feed_forward;
  const std::array<ExpectedTensor, 9> layer_tensors = {{
      {"attn_norm.weight", width, 1},
      {"attn_q.weight", width, queries},
      {"attn_k.weight", width, keys},
      {"attn_v.weight", width, keys},
      {"attn_output.weight", queries, width},
      {"ffn_norm.weight", width, 1},
      {"ffn_gate.weight", width, inner},
      {"ffn_up.weight", width, inner},
      {"ffn_down.weight", inner, width},
  }};
  TensorChecker checker(file);
  TRY(checker.Check("token_embd.weight", width, config.vocab));
  TRY(checker.Check("output_norm.weight", width, 1));
  if (file.FindTensor("output.weight") != nullptr)
    TRY(checker.Check("output.weight", width, config.vocab));
  for (int layer = 0; layer < config.layers; ++layer)
    for (const ExpectedTensor& tensor : layer_tensors)
      TRY(checker.Check(fmt::format("blk.{}.{}", layer, tensor.name), tensor.inputs, tensor.rows));
  return checker.RefuseOthers();
}

}  // namespace tandem::model
