// An opened model: what it is (ModelConfig) and where each of its tensors lies, whether it came as
// GGUF or as a folder in Hugging Face layout. Tensors go by the names of GGUF
// ("blk.3.attn_q.weight"); an expert of its own tensor is "blk.3.ffn_up_exps.7.weight".
#ifndef TANDEM_MODEL_CHECKPOINT_H_
#define TANDEM_MODEL_CHECKPOINT_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "model/families.h"
#include "model/gguf.h"
#include "model/mapped_file.h"
#include "model/model_config.h"
#include "model/model_files.h"
#include "model/safetensors.h"

namespace tandem::model {

// Tensors refer to the files that the checkpoint keeps mapped.
class Checkpoint {
 public:
  // `overrides`: JSON members that replace those of config.json; empty: none. Every error names the
  // file and what in it.
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                                  const std::string& overrides);
  // Of a GGUF file alone whose bytes the view's owner keeps: for tests and fuzzers.
  static Result<std::unique_ptr<Checkpoint>> Of(const GgufView& file);

  const std::string& label() const { return label_; }
  const ModelConfig& config() const { return config_; }
  // Null where there is no such tensor, or none that can be computed with.
  const Tensor* Find(std::string_view name) const;
  // Why Find was null: missing, or of an unsupported type.
  Error WhyMissing(std::string_view name) const;
  // A tensor nobody reads would mean that the model computes something else than we do.
  Status RefuseOthers(const std::unordered_set<const Tensor*>& used) const;
  // Names the weights and all that decides what they mean, in lower-case hex: of a single file its
  // SHA-256. Kept in `cache_dir` (weights_digest.h).
  Result<std::string> Digest(const std::string& cache_dir) const;

 private:
  Checkpoint() = default;
  Status OpenGguf(const ModelFiles& files);
  Status AddGguf(const GgufView& file);
  Status OpenFolder(const ModelFiles& files, const std::string& overrides);
  bool Ignored(std::string_view name) const;

  std::string label_;
  ModelConfig config_;
  const Family* family_ = nullptr;
  std::string description_;  // the text of config.json and the overrides
  std::vector<std::string> paths_;
  std::vector<std::unique_ptr<GgufFile>> ggufs_;
  std::vector<MappedFile> mapped_;
  std::vector<std::unique_ptr<SafetensorsView>> views_;
  std::map<std::string, const Tensor*, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> unsupported_;  // types by name
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_CHECKPOINT_H_
