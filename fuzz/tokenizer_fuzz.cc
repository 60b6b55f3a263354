// Any bytes may be text to encode, ids to decode, or a tokeniser blob from a peer.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/gguf_vocabulary.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using tandem::text::Tokenizer;
using tandem::text::TokenizerSpec;

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

// Every byte but one as its own token, a chain of merges and two special tokens.
TokenizerSpec SmallSpec(const char* pre_tokenizer) {
  tandem::text::GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  vocabulary.pre = pre_tokenizer;
  for (int b = 1; b < 256; ++b) {
    vocabulary.tokens.push_back(tandem::text::SymbolOfByte(static_cast<uint8_t>(b)));
  }
  for (const char* pair : {"a a", "aa a", "a b", "Ġ a", "Ã ©", "aa aa"}) {
    const std::string merge = pair;
    vocabulary.merges.push_back(merge);
    vocabulary.tokens.push_back(merge.substr(0, merge.find(' ')) +
                                merge.substr(merge.find(' ') + 1));
  }
  vocabulary.token_types.assign(vocabulary.tokens.size(), 1);
  for (const char* special : {"<|a|>", "<|ab|>"}) {
    vocabulary.tokens.emplace_back(special);
    vocabulary.token_types.push_back(3);
  }
  auto spec = tandem::text::ReadGgufVocabulary(std::move(vocabulary));
  Require(spec.has_value());
  // So that what is encoded decodes to itself.
  std::erase_if(spec->decoders, [](const auto& step) {
    return step.kind == tandem::text::DecoderKind::kCleanSpaces;
  });
  return *std::move(spec);
}

void EncodeAndBack(const Tokenizer& tokenizer, std::string_view text) {
  std::string valid;
  tandem::text::AppendLossy(text, valid);
  const std::vector<int32_t> ids = tokenizer.Encode(text);
  for (const int32_t id : ids) Require(tokenizer.IsValid(id));
  // Only the byte that the vocabulary lacks may be lost.
  std::erase(valid, '\0');
  Require(tokenizer.Decode(ids, false) == valid);
}

void DecodeInPieces(const Tokenizer& tokenizer, const uint8_t* data, size_t size) {
  std::vector<int32_t> ids(data, data + size);
  tandem::text::Detokenizer pieces(tokenizer, false);
  std::string joined;
  for (const int32_t id : ids) joined += pieces.Push(id);
  joined += pieces.Flush();
  Require(joined == tokenizer.Decode(ids, false));
}

void StopInPieces(std::string_view text) {
  if (text.size() < 4) return;
  auto matcher = tandem::text::StopMatcher::Create(
      {std::string(text.substr(0, 2)), std::string(text.substr(1, 3))}, false);
  Require(matcher.has_value());
  std::string out;
  for (const char c : text.substr(4)) out += matcher->Push(std::string_view(&c, 1)).emit;
  out += matcher->Flush();
  Require(text.substr(4).starts_with(out));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::unique_ptr<Tokenizer>> kTokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    for (const char* pre :
         {"smollm", "gpt-2", "llama3", "qwen2", "deepseek-v3", "gpt-4o", "default"}) {
      made.push_back(*Tokenizer::Create(SmallSpec(pre)));
    }
    return made;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : kTokenizers) EncodeAndBack(*tokenizer, text);
  DecodeInPieces(*kTokenizers.front(), data, size);
  StopInPieces(text);
  if (auto spec = tandem::text::ParseTokenizerSpec(text)) {
    Require(tandem::text::Serialize(*spec) == text);
    if (auto tokenizer = Tokenizer::Create(std::move(*spec))) {
      const std::vector<int32_t> ids = (*tokenizer)->Encode("hello a<|a|>");
      (*tokenizer)->Decode(ids, false);
    }
  }
  return 0;
}
