#include "text/byte_alphabet.h"

#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr int kSymbols = 256 + 68;

struct Alphabet {
  std::array<char32_t, 256> symbol{};
  std::array<int16_t, kSymbols> byte{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  char32_t spare = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const char32_t symbol = printable ? static_cast<char32_t>(b) : spare++;
    alphabet.symbol[static_cast<size_t>(b)] = symbol;
    alphabet.byte[symbol] = static_cast<int16_t>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string SymbolOfByte(uint8_t byte) {
  std::string symbol;
  AppendUtf8(kAlphabet.symbol[byte], symbol);
  return symbol;
}

void AppendSymbolsOfBytes(std::string_view bytes, std::string& out) {
  for (const char byte : bytes) AppendUtf8(kAlphabet.symbol[static_cast<uint8_t>(byte)], out);
}

std::optional<std::string> BytesOfSymbols(std::string_view symbols) {
  std::string bytes;
  while (!symbols.empty()) {
    const CodePoint c = DecodeUtf8(symbols);
    if (!c.valid || c.value >= kSymbols || kAlphabet.byte[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    symbols.remove_prefix(c.bytes);
  }
  return bytes;
}

}  // namespace tandem::text
