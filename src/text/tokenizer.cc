#include "text/tokenizer.h"

#include <utility>

#include "text/added_tokens.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

// Places in a text and what normalisers make of it fit 32 bits.
constexpr size_t kMaxTextBytes = size_t{64} << 20;

std::string_view Bounded(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return text;
  size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec data) : spec(std::move(data)) {}

  TokenizerSpec spec;
  std::vector<bool> special;
  std::optional<Normalizer> normalizer;
  std::optional<PreTokenizer> pre_tokenizer;
  std::optional<AddedTokens> added;             // cut out of the text as it is
  std::optional<AddedTokens> added_normalized;  // cut out of the normalised text
  std::unique_ptr<Model> model;
  std::optional<Decoder> decoder;

  // What one call of Encode needs.
  struct Scratch {
    Normalizer::Buffers buffers;
    Words words;
    std::vector<AddedTokens::Piece> pieces;
    std::vector<AddedTokens::Piece> inner;
  };

  Status Fill();
  Decoder::Texts NormalisedTexts() const;
  void EncodePiece(std::string_view text, bool at_start, bool parse_special, Scratch& scratch,
                   std::vector<int32_t>& out) const;
  void EncodeWords(std::string_view text, bool at_start, Scratch& scratch,
                   std::vector<int32_t>& out) const;
};

// Tokens that are found in normalised text decode to their normalised form.
Decoder::Texts Tokenizer::Impl::NormalisedTexts() const {
  Decoder::Texts texts;
  Normalizer::Buffers buffers;
  for (const AddedToken& token : spec.added) {
    if (!token.Is(AddedToken::kNormalized) || token.Is(AddedToken::kVerbatim)) continue;
    const auto id = static_cast<size_t>(token.id);
    const std::string_view text = normalizer->Apply(spec.tokens[id], true, buffers);
    if (text != spec.tokens[id]) texts.emplace(id, text);
  }
  return texts;
}

Status Tokenizer::Impl::Fill() {
  TRY_ASSIGN(normalizer, Normalizer::Create(spec.normalizers));
  TRY_ASSIGN(pre_tokenizer, PreTokenizer::Create(spec.pre_tokenizers));
  TRY_ASSIGN(added, AddedTokens::Create(spec, false, *normalizer));
  TRY_ASSIGN(added_normalized, AddedTokens::Create(spec, true, *normalizer));
  TRY_ASSIGN(model, MakeModel(spec));
  TRY_ASSIGN(decoder, Decoder::Create(spec, NormalisedTexts()));
  special.resize(spec.tokens.size());
  for (const AddedToken& token : spec.added) {
    if (token.Is(AddedToken::kSpecial)) special[static_cast<size_t>(token.id)] = true;
  }
  // Rules and scores live on in the model only.
  spec.merges = {};
  spec.scores = {};
  return {};
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  TRY(Validate(spec));
  auto impl = std::make_unique<Impl>(std::move(spec));
  TRY(impl->Fill());
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, EncodeOptions options) const {
  text = Bounded(text);
  std::string repaired;
  if (!IsValidUtf8(text)) {
    AppendLossy(text, repaired);
    text = repaired;
  }
  const TokenizerSpec& spec = impl_->spec;
  std::vector<int32_t> out;
  out.reserve(text.size() / 4 + 2);
  if (options.add_special_tokens) out = spec.prefix;
  Impl::Scratch scratch;
  impl_->added->Split(text, options.parse_special, scratch.pieces);
  for (const AddedTokens::Piece& piece : scratch.pieces) {
    if (piece.id != AddedTokens::Piece::kText) {
      out.push_back(piece.id);
    } else {
      impl_->EncodePiece(text.substr(piece.begin, piece.end - piece.begin), piece.begin == 0,
                         options.parse_special, scratch, out);
    }
  }
  if (options.add_special_tokens) out.insert(out.end(), spec.suffix.begin(), spec.suffix.end());
  return out;
}

void Tokenizer::Impl::EncodePiece(std::string_view text, bool at_start, bool parse_special,
                                  Scratch& scratch, std::vector<int32_t>& out) const {
  text = normalizer->Apply(text, at_start, scratch.buffers);
  if (added_normalized->empty()) return EncodeWords(text, at_start, scratch, out);
  scratch.inner.clear();
  added_normalized->Split(text, parse_special, scratch.inner);
  for (const AddedTokens::Piece& piece : scratch.inner) {
    if (piece.id != AddedTokens::Piece::kText) {
      out.push_back(piece.id);
    } else {
      EncodeWords(text.substr(piece.begin, piece.end - piece.begin), at_start && piece.begin == 0,
                  scratch, out);
    }
  }
}

void Tokenizer::Impl::EncodeWords(std::string_view text, bool at_start, Scratch& scratch,
                                  std::vector<int32_t>& out) const {
  pre_tokenizer->Split(text, at_start, scratch.words);
  for (size_t i = 0; i < scratch.words.ranges.size(); ++i) model->Encode(scratch.words[i], out);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string out;
  DecodeState state(*impl_->decoder, DecodeState::Mode::kWhole);
  for (const int32_t id : ids) {
    if (!IsValid(id) || (skip_special_tokens && IsSpecial(id))) continue;
    state.Push(static_cast<size_t>(id), out);
  }
  state.Flush(out);
  return out;
}

bool Tokenizer::IsValid(int32_t id) const { return id >= 0 && id < VocabSize(); }

bool Tokenizer::IsSpecial(int32_t id) const {
  return IsValid(id) && impl_->special[static_cast<size_t>(id)];
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  return IsValid(id) ? impl_->decoder->BytesOf(static_cast<size_t>(id)) : std::string_view();
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return IsValid(id) ? std::string_view(impl_->spec.tokens[static_cast<size_t>(id)])
                     : std::string_view();
}

int32_t Tokenizer::VocabSize() const { return static_cast<int32_t>(impl_->spec.tokens.size()); }

const TokenizerSpec& Tokenizer::spec() const { return impl_->spec; }

const Decoder& Tokenizer::decoder() const { return *impl_->decoder; }

}  // namespace tandem::text
