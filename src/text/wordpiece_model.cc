// WordPiece: the longest token again and again. WordLevel: a word is a token or unknown.
#include "text/byte_trie.h"
#include "text/token_model.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

class WordPieceModel : public Model {
 public:
  explicit WordPieceModel(const TokenizerSpec& spec)
      : model_(spec.model), starts_(spec.tokens.size() * 4), rests_(spec.tokens.size() * 4) {}

  Status Fill(const TokenizerSpec& spec) {
    const std::vector<bool> in = TokensOfModel(spec);
    const std::string& prefix = model_.continuing_prefix;
    bool fits = true;
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (!in[id]) continue;
      const std::string_view token = spec.tokens[id];
      fits &= starts_.Add(token, static_cast<int32_t>(id));
      if (token.starts_with(prefix)) {
        fits &= rests_.Add(token.substr(prefix.size()), static_cast<int32_t>(id));
      }
    }
    if (fits) return {};
    return Err(Code::kTooLarge, "tokenizer tokens: more bytes than a WordPiece model may have");
  }

  void Encode(std::string_view word, std::vector<int32_t>& out) const override {
    const size_t start = out.size();
    const bool whole_only = model_.kind == ModelKind::kWordLevel;
    const bool too_long =
        !whole_only && model_.max_word_chars > 0 && CountCodePoints(word) > model_.max_word_chars;
    size_t at = 0;
    while (!too_long && at < word.size()) {
      size_t length = 0;
      int32_t found = -1;
      (at == 0 ? starts_ : rests_).ForEachPrefix(word.substr(at), [&](size_t bytes, int32_t id) {
        length = bytes;
        found = id;
      });
      if (found < 0 || (whole_only && length != word.size())) break;
      out.push_back(found);
      at += length;
    }
    if (at == word.size()) return;
    out.resize(start);
    if (model_.unk_id) out.push_back(*model_.unk_id);
  }

 private:
  TokenModel model_;
  ByteTrie starts_;  // tokens as they are
  ByteTrie rests_;   // tokens that go on a word, without their prefix
};

}  // namespace

Result<std::unique_ptr<Model>> MakeWordPieceModel(const TokenizerSpec& spec) {
  auto model = std::make_unique<WordPieceModel>(spec);
  TRY(model->Fill(spec));
  return model;
}

}  // namespace tandem::text
