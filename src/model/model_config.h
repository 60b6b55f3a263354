// What a decoder-only transformer is, whatever file describes it: the one description that GGUF
// metadata and Hugging Face's config.json are both read into, and that the forward pass follows.
// Widths are in elements.
#ifndef TANDEM_MODEL_MODEL_CONFIG_H_
#define TANDEM_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::model {

// The function between the gate and the product of an MLP.
enum class Activation : uint8_t { kSilu, kGeluTanh };

// What is normalised of queries and keys before their rotation.
enum class QkNorm : uint8_t { kNone, kHead, kWidth };

// Rotary embedding of the first `dims` dimensions of a head (rope.h).
struct RopeConfig {
  enum class Scaling : uint8_t { kNone, kLinear, kDynamic, kLlama3, kYarn, kLongRope };

  double base = 10000.0;
  int dims = 0;
  Scaling scaling = Scaling::kNone;
  double factor = 1.0;
  int64_t original_context = 0;  // positions before scaling
  double low_freq_factor = 1.0;  // llama3
  double high_freq_factor = 4.0;
  double beta_fast = 32.0;  // yarn
  double beta_slow = 1.0;
  bool truncate = true;               // yarn: whole dimensions bound the ramp
  double attention_factor = 1.0;      // multiplies cosines and sines; long rope has its own
  std::vector<float> short_divisors;  // of each pair's frequency; empty: 1
  std::vector<float> long_divisors;   // where the model serves more than original_context
};

// A mixture of experts in place of an MLP.
struct MoeConfig {
  int experts = 0;  // 0: none
  int used = 0;     // experts of a token
  int inner = 0;    // width of an expert
  int shared_inner = 0;
  bool shared_gate = false;  // the shared expert has a gate of its own
  bool sigmoid = false;      // scores are sigmoids, not a softmax
  bool choice_bias = false;  // added to scores for the choice alone
  bool normalize = false;    // weights of the chosen sum to 1
  float scale = 1.0F;        // of the chosen weights
  int groups = 1;            // choose groups_used of them first
  int groups_used = 1;
  bool group_by_two_best = false;  // a group is worth its two best experts, else its best
};

// Multi-head latent attention (DeepSeek-V2): keys and values of all heads from one latent vector.
struct MlaConfig {
  int latent = 0;        // 0: ordinary attention
  int query_latent = 0;  // 0: queries come from the residual directly
  int plain_dim = 0;     // of a query head, without position
  int rope_dim = 0;      // of a query head, and of the one key that all heads share
  int value_dim = 0;
};

struct LayerConfig {
  int window = 0;           // keys that a query sees, itself included; 0: all
  bool local_rope = false;  // uses ModelConfig::local_rope
  bool experts = false;
};

// How the weights are stored, where files differ in the form of the same numbers.
struct StoredForm {
  bool half_split_rope = false;  // pairs are (i, i + dims / 2), else (2i, 2i + 1)
  bool norms_minus_one = false;
};

struct ModelConfig {
  std::string architecture;  // the family's name
  std::string name;
  int embedding = 0;  // width of the residual stream
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int feed_forward = 0;
  int vocab = 0;
  int64_t context_length = 0;  // positions the model was trained for
  float rms_epsilon = 1e-5F;
  std::vector<LayerConfig> layers;
  RopeConfig rope;
  RopeConfig local_rope;
  MoeConfig moe;
  MlaConfig mla;
  Activation activation = Activation::kSilu;
  QkNorm qk_norm = QkNorm::kNone;
  bool pre_norm = true;    // norms of what attention and MLP read
  bool post_norm = false;  // norms of what they write
  bool tied_head = false;  // the output matrix is the token table even if the file has both
  float embedding_scale = 1.0F;
  float residual_scale = 1.0F;     // of what attention and MLP add
  float attention_scale = 0.0F;    // of scores; set by the readers
  float attention_softcap = 0.0F;  // 0: none
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;
  StoredForm stored;

  int layer_count() const { return static_cast<int>(layers.size()); }
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_MODEL_CONFIG_H_
