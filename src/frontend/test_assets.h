// A byte-level tokenizer and a chat template for tests: byte b is token b, then two control tokens.
// Tests only.
#ifndef TANDEM_FRONTEND_TEST_ASSETS_H_
#define TANDEM_FRONTEND_TEST_ASSETS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "frontend/assets.h"
#include "frontend/request.h"
#include "text/byte_alphabet.h"
#include "text/gguf_vocabulary.h"

namespace tandem::frontend {

inline constexpr TokenId kStartToken = 256;
inline constexpr TokenId kEndToken = 257;
inline constexpr std::string_view kTestTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

inline std::string TestTokenizerBytes() {
  text::GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = "smollm";
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(text::SymbolOfByte(static_cast<uint8_t>(byte)));
    vocabulary.token_types.push_back(static_cast<int32_t>(text::TokenType::kNormal));
  }
  for (const char* special : {"<|im_start|>", "<|im_end|>"}) {
    vocabulary.tokens.emplace_back(special);
    vocabulary.token_types.push_back(static_cast<int32_t>(text::TokenType::kControl));
  }
  vocabulary.eos = kEndToken;
  const auto spec = text::ReadGgufVocabulary(std::move(vocabulary));
  CHECK(spec.has_value());
  auto bytes = text::Serialize(*spec);
  CHECK(bytes.has_value());
  return *std::move(bytes);
}

inline ModelAssets TestAssets() {
  auto assets = BuildAssets({.tokenizer = TestTokenizerBytes(),
                             .chat_template = std::string(kTestTemplate),
                             .generation_config = {},
                             .content_format = {}});
  CHECK(assets.has_value());
  return *std::move(assets);
}

inline std::vector<TokenId> IdsOf(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_TEST_ASSETS_H_
