#include "text/tokenizer.h"

#include <array>
#include <optional>
#include <utility>

#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/special_tokens.h"
#include "text/utf8.h"
#include "text/word_table.h"

namespace tandem::text {
namespace {

TokenType TypeOf(const TokenizerSpec& spec, size_t id) {
  return spec.token_types.empty() ? TokenType::kNormal : spec.token_types[id];
}

// Written out in the text rather than made by merges.
bool IsWrittenOut(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

Result<MergeTable> MakeMerges(const TokenizerSpec& spec, const WordTable& ids) {
  MergeTable table(spec.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string_view merge = spec.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return Err(Code::kCorrupt, "tokenizer merges: entry {} '{}' is not two symbols", rank, merge);
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const int32_t left_id = ids.Find(left);
    const int32_t right_id = ids.Find(right);
    const int32_t merged_id = ids.Find(joined);
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      return Err(Code::kCorrupt,
                 "tokenizer merges: entry {} '{}' has a symbol outside the vocabulary", rank,
                 merge);
    }
    table.Add(left_id, right_id, {static_cast<uint32_t>(rank), merged_id});
  }
  return table;
}

std::array<int32_t, 256> MakeByteIds(const WordTable& ids) {
  std::array<int32_t, 256> byte_ids;
  for (size_t b = 0; b < byte_ids.size(); ++b) {
    byte_ids[b] = ids.Find(SymbolOfByte(static_cast<uint8_t>(b)));
  }
  return byte_ids;
}

}  // namespace

struct Tokenizer::Impl {
  TokenizerSpec spec;
  PreTokenizer pre;
  Bpe bpe;
  SpecialTokens special;
  std::string bytes;              // of all tokens, one after the other
  std::vector<uint32_t> offsets;  // of each token in `bytes`, and the end
  WordTable words;

  std::string_view BytesOf(size_t id) const {
    return std::string_view(bytes).substr(offsets[id], offsets[id + 1] - offsets[id]);
  }
  void FillBytes();
  void FillWords();
  void EncodePlain(std::string_view text, std::vector<uint32_t>& lengths,
                   std::vector<int32_t>& out) const;
};

void Tokenizer::Impl::FillBytes() {
  offsets.reserve(spec.tokens.size() + 1);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
    const std::string& token = spec.tokens[id];
    const TokenType type = TypeOf(spec, id);
    std::optional<std::string> plain;
    if (!IsWrittenOut(type)) plain = BytesOfSymbols(token);
    bytes.append(plain ? *plain : token);
    if (IsWrittenOut(type)) {
      special.Add(token, static_cast<int32_t>(id), type != TokenType::kUserDefined);
    }
  }
  offsets.push_back(static_cast<uint32_t>(bytes.size()));
  special.Finish();
}

// A token that merging its own bytes gives back is what any word equal to it becomes.
void Tokenizer::Impl::FillWords() {
  std::vector<int32_t> merged;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (IsWrittenOut(TypeOf(spec, id)) || BytesOf(id).empty()) continue;
    merged.clear();
    if (!pre.ignore_merges()) bpe.Encode(BytesOf(id), merged);
    const bool whole = merged.size() == 1 && merged[0] == static_cast<int32_t>(id);
    if (pre.ignore_merges() || whole) words.Add(BytesOf(id), static_cast<int32_t>(id));
  }
}

void Tokenizer::Impl::EncodePlain(std::string_view text, std::vector<uint32_t>& lengths,
                                  std::vector<int32_t>& out) const {
  lengths.clear();
  pre.Split(text, lengths);
  const char* at = text.data();
  for (const uint32_t length : lengths) {
    const std::string_view word(at, length);
    at += length;
    const int32_t id = words.Find(word);
    if (id >= 0) {
      out.push_back(id);
    } else {
      bpe.Encode(word, out);
    }
  }
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  if (spec.model != "gpt2") {
    return Err(Code::kUnsupported,
               "tokenizer.ggml.model: '{}' is not supported; supported is gpt2 (byte-level BPE)",
               spec.model);
  }
  TRY(Validate(spec));
  TRY_ASSIGN(const PreTokenizer pre, PreTokenizer::Find(spec.pre_tokenizer));
  WordTable ids(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    ids.Add(spec.tokens[id], static_cast<int32_t>(id));
  }
  TRY_ASSIGN(MergeTable merges, MakeMerges(spec, ids));
  Bpe bpe(std::move(merges), MakeByteIds(ids));
  const size_t size = spec.tokens.size();
  // Merges and scores live on in the tables only.
  spec.merges = {};
  spec.scores = {};
  auto impl = std::make_unique<Impl>(
      Impl{std::move(spec), pre, std::move(bpe), {}, {}, {}, WordTable(size)});
  impl->FillBytes();
  impl->FillWords();
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    AppendLossy(text, repaired);
    text = repaired;
  }
  const TokenizerSpec& spec = impl_->spec;
  std::vector<int32_t> out;
  out.reserve(text.size() / 4 + 2);
  if (options.add_special_tokens && spec.add_bos && spec.bos_id) out.push_back(*spec.bos_id);
  std::vector<uint32_t> lengths;
  lengths.reserve(text.size() / 4 + 2);
  for (size_t at = 0; at < text.size();) {
    const auto match = impl_->special.Find(text, at, options.parse_special);
    const size_t end = match ? match->at : text.size();
    if (end > at) impl_->EncodePlain(text.substr(at, end - at), lengths, out);
    if (match) out.push_back(match->id);
    at = match ? end + match->bytes : end;
  }
  if (options.add_special_tokens && spec.add_eos && spec.eos_id) out.push_back(*spec.eos_id);
  return out;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  Utf8Decoder decoder;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    decoder.Push(TokenBytes(id), out);
  }
  decoder.Flush(out);
  return out;
}

bool Tokenizer::IsValid(int32_t id) const { return id >= 0 && id < VocabSize(); }

bool Tokenizer::IsSpecial(int32_t id) const {
  if (!IsValid(id)) return false;
  const TokenType type = TypeOf(impl_->spec, static_cast<size_t>(id));
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return IsValid(id) ? impl_->BytesOf(static_cast<size_t>(id)) : std::string_view();
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return IsValid(id) ? std::string_view(impl_->spec.tokens[static_cast<size_t>(id)])
                     : std::string_view();
}

int32_t Tokenizer::VocabSize() const { return static_cast<int32_t>(impl_->spec.tokens.size()); }

const TokenizerSpec& Tokenizer::spec() const { return impl_->spec; }

}  // namespace tandem::text
