// Template text to tokens, with Jinja's white space rules (trim_blocks and lstrip_blocks on).
#ifndef TANDEM_TEXT_JINJA_LEXER_H_
#define TANDEM_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text::jinja {

enum class TokenKind : uint8_t {
  kText,         // goes out as it is
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kBlockBegin,   // {%
  kBlockEnd,     // %}
  kName,
  kString,  // text holds the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,  // text is one of + - / // * % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ;
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 0;
  std::string text;
};

// The last token is kEnd. kInvalidArgument with the line where the text is no template.
Result<std::vector<Token>> Tokenise(std::string_view source);

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_LEXER_H_
