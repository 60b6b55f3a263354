// The forward pass of the Llama architecture. One parallel region per layer with six barriers when
// few rows are computed, ten when many: then the rows of norms and quantisation are divided too.
#ifndef TANDEM_MODEL_LLAMA_H_
#define TANDEM_MODEL_LLAMA_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "model/activations.h"
#include "model/attention.h"
#include "model/gguf.h"
#include "model/kv_writer.h"
#include "model/matmul.h"
#include "model/memory.h"
#include "model/model.h"
#include "model/ops.h"
#include "model/packed_cache.h"
#include "model/rope.h"
#include "model/weights.h"

namespace tandem::model {

class LlamaModel final : public Model {
 public:
  struct Parts {
    std::unique_ptr<GgufFile> file;
    ModelConfig config;
    KvLayout kv_layout;
    const Ops* ops = nullptr;
    Weights weights;  // bound to `image`
    PackedImage image;
    std::string digest;
    int max_threads = 1;
  };
  explicit LlamaModel(Parts parts);

  const ModelConfig& config() const override { return parts_.config; }
  const KvLayout& kv_layout() const override { return parts_.kv_layout; }
  std::string NumericsId() const override;
  std::string WeightsDigest() const override { return parts_.digest; }
  size_t WeightBytes() const override { return weight_bytes_; }
  Status ReserveScratch(int max_tokens, int max_logit_rows) override;
  Status Forward(std::span<const BatchSlice> slices, KvArena arena, Team& team,
                 std::span<float> logits, const std::atomic<bool>* abort) override;

 private:
  struct Place {
    KvWriter::Place kv;  // where the key and value of a token go
    int64_t position;
    TokenId token;
  };

  Status Check(std::span<const BatchSlice> slices, const KvArena& arena,
               std::span<const float> logits) const;
  void Plan(std::span<const BatchSlice> slices, KvArena arena, int threads);
  void Embed(const TeamMember& member);
  void RunLayer(int index, TeamMember& member);
  void RunHead(TeamMember& member, std::span<float> logits);
  const float* Norm(const float* x, const std::vector<float>& weight, float* out) const;

  // The input of `readers`, from fill(row, buffer), which returns where the row's floats are (in
  // `buffer` or elsewhere). Few rows: each member makes all of them for itself; many: they are
  // divided, and a barrier follows. `with_rest` also fills Rest(member, rows).
  template <class Fill>
  Activations Prepare(TeamMember& member, size_t rows,
                      std::initializer_list<const PackedMatrix*> readers, Fill fill,
                      bool with_rest = false);
  // What quantising the rows of x left over, quantised as well. Values made from rounded rows would
  // be the largest source of error by far (docs/contracts/numerics.md).
  Activations Rest(const TeamMember& member, size_t rows) const;
  void PrepareRest(const float* values, size_t row, const Activations& x,
                   const Activations& rest) const;
  void MultiplyQkv(const LayerWeights& layer, const TeamMember& member, const Activations& x);
  void StoreQuery(size_t row, size_t output, float* values);
  void StoreKey(size_t row, size_t output, float* values);
  // Whole heads, once all their numbers are there, to the arena.
  void StoreHeads(int layer, const TeamMember& member) const;
  float* ResidualRow(size_t row) const { return residual_ + row * embedding_; }

  Parts parts_;
  const Ops& ops_;
  Rope rope_;
  Attention attention_;
  KvWriter writer_;
  size_t weight_bytes_ = 0;
  size_t embedding_;
  size_t head_dim_;
  size_t query_width_;  // heads * head_dim
  size_t kv_width_;     // kv_heads * head_dim
  size_t inner_;        // feed_forward
  size_t widest_;       // of all inputs of matrices
  size_t head_step_;    // outputs of a panel that lie in one head: 32 or 16

  size_t max_tokens_ = 0;
  size_t max_logit_rows_ = 0;
  Mapping scratch_;
  float* residual_ = nullptr;  // [tokens][embedding]
  float* queries_ = nullptr;   // [tokens][query_width]
  float* keys_ = nullptr;      // [tokens][kv_width]
  float* values_ = nullptr;    // [tokens][kv_width]
  float* attended_ = nullptr;  // [tokens][query_width]
  float* gated_ = nullptr;     // [tokens][inner]
  float* cosine_ = nullptr;    // [tokens][head_dim]
  float* sine_ = nullptr;      // [tokens][head_dim]
  Activations shared_;
  Activations shared_rest_;       // of the inputs of `v` alone
  std::vector<Activations> own_;  // of each thread
  std::vector<Activations> own_rest_;

  // The step in progress.
  std::vector<Place> places_;         // of each token
  std::vector<size_t> logit_tokens_;  // tokens whose logits are wanted
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_LLAMA_H_
