// Test support: finds models in the test cache and runs one sequence through one.
#ifndef TANDEM_MODEL_TEST_MODEL_H_
#define TANDEM_MODEL_TEST_MODEL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/team.h"
#include "model/model.h"

namespace tandem::model {

inline std::string CachedModel(const std::string& name) {
  const char* cache = std::getenv("TANDEM_TEST_CACHE");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/models/" + name;
  const char* home = std::getenv("HOME");
  return std::string(home == nullptr ? "/root" : home) + "/.cache/tandem/models/" + name;
}

// Null, with the test failed, if the model cannot be loaded.
inline std::unique_ptr<Model> LoadCached(const std::string& name, KvDtype kv_dtype, Team& team) {
  LoadOptions options;
  options.path = CachedModel(name);
  options.kv_dtype = kv_dtype;
  Result<std::unique_ptr<Model>> model = Model::Load(options, team);
  EXPECT_TRUE(model) << model.error().message << " (run tests/tools/prepare_test_data.py)";
  return model ? *std::move(model) : nullptr;
}

// One sequence with KV blocks of its own.
class TestSequence {
 public:
  TestSequence(Model& model, Team& team, int64_t tokens, int max_chunk)
      : model_(model), team_(team), max_chunk_(max_chunk) {
    const int block = model.kv_layout().block_tokens;
    const int64_t blocks = (tokens + block - 1) / block;
    arena_bytes_.resize(static_cast<size_t>(blocks) * model.kv_layout().BlockBytes() + 64);
    const uintptr_t address = reinterpret_cast<uintptr_t>(arena_bytes_.data());
    arena_.base = arena_bytes_.data() + (64 - address % 64) % 64;
    arena_.blocks = static_cast<int32_t>(blocks);
    // Blocks in reverse, so that a table is really looked up.
    for (int64_t i = 0; i < blocks; ++i) table_.push_back(static_cast<BlockId>(blocks - 1 - i));
    const Status reserved = model.ReserveScratch(max_chunk, max_chunk);
    EXPECT_TRUE(reserved) << reserved.error().message;
  }

  // Appends tokens in chunks; returns the logits of the last `rows` of them.
  std::vector<float> Append(std::span<const TokenId> tokens, int64_t rows) {
    const size_t vocab = static_cast<size_t>(model_.config().vocab);
    std::vector<float> logits(static_cast<size_t>(rows) * vocab);
    size_t written = 0;
    while (!tokens.empty()) {
      const size_t count = std::min(tokens.size(), static_cast<size_t>(max_chunk_));
      const int64_t behind = static_cast<int64_t>(tokens.size() - count);
      BatchSlice slice;
      slice.tokens = tokens.first(count);
      slice.start_position = position_;
      slice.block_table = table_;
      slice.logit_rows =
          static_cast<int>(std::clamp(rows - behind, int64_t{0}, static_cast<int64_t>(count)));
      const size_t size = static_cast<size_t>(slice.logit_rows) * vocab;
      const Status status = model_.Forward({&slice, 1}, arena_, team_,
                                           std::span(logits).subspan(written, size), nullptr);
      EXPECT_TRUE(status) << status.error().message;
      written += size;
      position_ += static_cast<int64_t>(count);
      tokens = tokens.subspan(count);
    }
    return logits;
  }

 private:
  Model& model_;
  Team& team_;
  int max_chunk_;
  std::vector<std::byte> arena_bytes_;
  KvArena arena_;
  std::vector<BlockId> table_;
  int64_t position_ = 0;
};

}  // namespace tandem::model

#endif  // TANDEM_MODEL_TEST_MODEL_H_
