// A tokenizer.json may come from anyone: it is refused, or gives a tokenizer that survives any text
// and ids.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace {

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace

// Up to a NUL byte the file, behind it tokenizer_config.json.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tandem::text::Tokenizer;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find('\0');
  const std::string_view config = cut == input.npos ? std::string_view() : input.substr(cut + 1);
  auto spec = tandem::text::ReadTokenizerJson(input.substr(0, cut), config);
  if (!spec) return 0;
  Require(tandem::text::Serialize(*spec).has_value());
  const auto made = Tokenizer::Create(*std::move(spec));
  if (!made) return 0;
  const Tokenizer& tokenizer = **made;
  std::vector<int32_t> ids;
  for (const char* text :
       {"Hello  <sep> w\u00f6rld 123", "\u4e2d\u6587e\u0301\U0001F600\n", "\xff"}) {
    ids = tokenizer.Encode(text);
    for (const int32_t id : ids) Require(tokenizer.IsValid(id));
    Require(tandem::text::IsValidUtf8(tokenizer.Decode(ids, true)));
  }
  for (int32_t id = -1; id < tokenizer.VocabSize() && id < 300; ++id) ids.push_back(id);
  tandem::text::Detokenizer pieces(tokenizer, false);
  for (const int32_t id : ids) Require(tandem::text::IsValidUtf8(pieces.Push(id)));
  pieces.Flush();
  return 0;
}
