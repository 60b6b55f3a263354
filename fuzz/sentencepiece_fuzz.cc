// A tokenizer.model may come from anyone: it is refused, or gives a tokenizer that survives any
// text.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/sentencepiece.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tandem::text::Tokenizer;
  auto spec = tandem::text::ReadSentencePiece({reinterpret_cast<const char*>(data), size});
  if (!spec) return 0;
  const auto made = Tokenizer::Create(*std::move(spec));
  if (!made) return 0;
  for (const char* text : {"  Hello  w\u00f6rld", "\u4e2d\u2460\ufb01\n"}) {
    const std::vector<int32_t> ids = (*made)->Encode(text);
    for (const int32_t id : ids) {
      if (!(*made)->IsValid(id)) __builtin_trap();
    }
    if (!tandem::text::IsValidUtf8((*made)->Decode(ids, false))) __builtin_trap();
  }
  return 0;
}
