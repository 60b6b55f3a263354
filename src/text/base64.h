// Base64 (RFC 4648) as tokenizer files use it.
#ifndef TANDEM_TEXT_BASE64_H_
#define TANDEM_TEXT_BASE64_H_

#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

// Nothing for a wrong character or length.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_BASE64_H_
