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
#include "text/tokenizer_spec.h"

namespace tandem::frontend {

inline constexpr TokenId kStartToken = 256;
inline constexpr TokenId kEndToken = 257;
inline constexpr std::string_view kTestTemplate =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

inline std::string TestTokenizerBytes() {
  text::TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(text::SymbolOfByte(static_cast<uint8_t>(byte)));
    spec.token_types.push_back(text::TokenType::kNormal);
  }
  for (const char* special : {"<|im_start|>", "<|im_end|>"}) {
    spec.tokens.emplace_back(special);
    spec.token_types.push_back(text::TokenType::kControl);
  }
  spec.eos_id = kEndToken;
  auto bytes = text::Serialize(spec);
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
