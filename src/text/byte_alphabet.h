// GPT-2's printable alphabet for bytes: 33..126, 161..172 and 174..255 stand for themselves as code
// points, the other 68 bytes are U+0100, U+0101, ... in order.
#ifndef TANDEM_TEXT_BYTE_ALPHABET_H_
#define TANDEM_TEXT_BYTE_ALPHABET_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::text {

// The symbol (UTF-8) of a byte.
std::string SymbolOfByte(uint8_t byte);
// Appends the symbols of all bytes.
void AppendSymbolsOfBytes(std::string_view bytes, std::string& out);
// The bytes that a token's symbols stand for; nothing where a character is no symbol.
std::optional<std::string> BytesOfSymbols(std::string_view symbols);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_BYTE_ALPHABET_H_
