// What the blocks of a forward pass share during one step: which tokens are computed, the residual
// stream, rotation tables, and the rows on their way into matrix products.
#ifndef TANDEM_MODEL_STEP_H_
#define TANDEM_MODEL_STEP_H_

#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/team.h"
#include "model/activations.h"
#include "model/carver.h"
#include "model/matmul.h"
#include "model/model.h"
#include "model/ops.h"
#include "model/rope.h"
#include "model/weights.h"

namespace tandem::model {

// Up to this many rows each thread makes all activations for itself: cheaper than a barrier.
inline constexpr size_t kRowsForEach = 2;

// Where the key and value of a token go.
struct Place {
  BlockId block;
  int32_t slot;
  int64_t position;
  TokenId token;
};

// Cosines and signed sines of all tokens of a step, [tokens][head_dim].
struct RopeTable {
  RopeTable(const RopeConfig& config, size_t dim, int64_t positions)
      : rope(config, static_cast<int>(dim), positions), head_dim(dim) {}
  void Fill(size_t row, int64_t position) const {
    rope.Row(position, {cosine + row * head_dim, head_dim}, {sine + row * head_dim, head_dim});
  }
  Rope rope;
  size_t head_dim;
  float* cosine = nullptr;
  float* sine = nullptr;
};

class Step {
 public:
  // `positions`: how many the model serves.
  Step(const Ops& step_ops, const ModelConfig& model_config, const Widths& model_widths,
       int max_threads, int64_t positions);

  // Takes memory for steps of so many tokens; `widest` is the widest input of any matrix.
  void Carve(Carver& carver, size_t max_tokens, size_t max_logit_rows, size_t widest);
  void Plan(std::span<const BatchSlice> slices, int block_tokens);
  // Residual rows of the tokens of `member`'s part, from the token table.
  void Embed(const TeamMember& member, const Tensor& table);

  // The last layer matters only to the tokens whose logits are wanted, once keys and values are
  // kept: rows() are then those, before and elsewhere all tokens.
  void SetLast(bool last) { last_ = last; }
  size_t tokens() const { return places_.size(); }
  size_t rows() const { return last_ ? logit_tokens_.size() : places_.size(); }
  size_t TokenOf(size_t row) const { return last_ ? logit_tokens_[row] : row; }
  const Place& place(size_t token) const { return places_[token]; }
  float* ResidualOf(size_t token) const { return residual_ + token * widths.residual; }
  float* Residual(size_t row) const { return ResidualOf(TokenOf(row)); }
  const RopeTable& rope(bool local) const { return local ? local_ : global_; }

  // `buffer`, filled with a norm of x; or x itself where there is none.
  const float* Norm(const float* x, const NormWeights& norm, float* buffer) const {
    if (norm.weight.empty()) return x;
    ops.rms_norm(x, norm.weight.data(), norm.weight.size(), norm.epsilon, buffer);
    return buffer;
  }

  // The input of `readers`, from fill(row, buffer), which returns where the row's floats are (in
  // `buffer` or elsewhere), as many as the readers take. Few rows: each member makes all of them
  // for itself; many: they are divided, and a barrier follows. `with_rest` also fills Rest(member,
  // rows).
  template <class Fill>
  Activations Prepare(TeamMember& member, size_t rows,
                      std::initializer_list<const PackedMatrix*> readers, Fill fill,
                      bool with_rest = false) const;
  // What quantising the rows of x left over, quantised as well. Values made from rounded rows would
  // be the largest source of error by far (docs/contracts/numerics.md).
  Activations Rest(const TeamMember& member, size_t rows) const;

  // An epilogue: what a block adds to 32 dimensions of a row, to the residual, or, where a norm
  // comes between, aside for Finish.
  void Emit(size_t panel, size_t row, const std::vector<float>& bias, float* outputs) const;
  // After the barrier that follows Emit; ends with one itself if it did anything.
  void Finish(TeamMember& member, const NormWeights& norm) const;

  const Ops& ops;
  const ModelConfig& config;
  const Widths& widths;

 private:
  void PrepareRest(const float* values, size_t row, const Activations& x,
                   const Activations& rest) const;
  void AddToResidual(const float* values, size_t count, float* residual) const;

  const int max_threads_;
  RopeTable global_;
  RopeTable local_;
  float* residual_ = nullptr;  // [tokens][residual]
  float* branch_ = nullptr;    // [tokens][residual], with post norms
  Activations shared_;
  Activations shared_rest_;       // of the inputs of `v` alone
  std::vector<Activations> own_;  // of each thread
  std::vector<Activations> own_rest_;
  bool last_ = false;
  std::vector<Place> places_;
  std::vector<size_t> logit_tokens_;
};

template <class Fill>
Activations Step::Prepare(TeamMember& member, size_t rows,
                          std::initializer_list<const PackedMatrix*> readers, Fill fill,
                          bool with_rest) const {
  bool floats = false;
  bool quantized = false;
  for (const PackedMatrix* reader : readers)
    if (reader->outputs > 0) (reader->quantized() ? quantized : floats) = true;
  const bool for_each = rows <= kRowsForEach;
  const Activations x = (for_each ? own_[static_cast<size_t>(member.index())] : shared_)
                            .WithWidth((*readers.begin())->inputs);
  const Part part = for_each ? Part{0, rows} : PartOf(member, rows);
  for (size_t row = part.begin; row < part.end; ++row) {
    float* buffer = x.Values(row);
    const float* values = fill(row, buffer);
    if (quantized) ops.quantize(values, x.width(), x.Quantized(row));
    if (with_rest) PrepareRest(values, row, x, Rest(member, rows));
    if (floats && values != buffer) std::memcpy(buffer, values, x.width() * sizeof(float));
  }
  if (!for_each) member.Barrier();
  return x;
}

}  // namespace tandem::model

#endif  // TANDEM_MODEL_STEP_H_
