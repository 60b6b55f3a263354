// Everything that turning text into token ids and back needs, as plain data. A worker fills it from
// the model file; a frontend fetches the serialised form by its SHA-256 digest.
#ifndef TANDEM_TEXT_TOKENIZER_SPEC_H_
#define TANDEM_TEXT_TOKENIZER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

// Values are those of GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TokenizerSpec {
  std::string model;                   // tokenizer.ggml.model: "gpt2" is byte-level BPE
  std::string pre_tokenizer;           // tokenizer.ggml.pre: "smollm", "gpt-2", "llama-bpe", ...
  std::vector<std::string> tokens;     // index = id; gpt2: printable byte alphabet
  std::vector<TokenType> token_types;  // empty (all normal) or as many as tokens
  std::vector<std::string> merges;     // "left right", index = rank
  std::vector<float> scores;           // empty or as many as tokens
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> eot_id;
  std::optional<int32_t> unk_id;
  std::optional<int32_t> pad_id;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
  std::string chat_template;  // Jinja text; empty where the model has none

  bool operator==(const TokenizerSpec&) const = default;
};

// Bounds that Serialize and Parse share; a spec outside them is refused.
inline constexpr size_t kMaxTokens = size_t{1} << 21;
inline constexpr size_t kMaxMerges = size_t{1} << 22;
inline constexpr size_t kMaxTokenBytes = size_t{1} << 16;
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxSpecBytes = size_t{1} << 28;

// kInvalidArgument where the spec breaks a bound or names an id outside the vocabulary.
Status Validate(const TokenizerSpec& spec);

// The same spec always gives the same bytes, so their digest names the tokeniser. Fails where
// Validate does.
Result<std::string> Serialize(const TokenizerSpec& spec);

// Reads what Serialize wrote. The bytes may come from anyone: kCorrupt for damage, kIncompatible
// for another format version.
Result<TokenizerSpec> ParseTokenizerSpec(std::string_view bytes);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_SPEC_H_
