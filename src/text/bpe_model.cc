// The BPE model: words to symbols, unknown characters, whole words that are tokens.
#include <atomic>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/token_model.h"
#include "text/utf8_scan.h"
#include "text/word_table.h"

namespace tandem::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

// The id of each character that is a token, in pages of 256.
class CharIds {
 public:
  CharIds() : pages_(0x1100) {}
  void Set(char32_t c, int32_t id) {
    std::vector<int32_t>& page = pages_[c >> 8];
    if (page.empty()) page.assign(256, -1);
    page[c & 255] = id;
  }
  int32_t Find(char32_t c) const {
    const std::vector<int32_t>& page = pages_[c >> 8];
    return page.empty() ? -1 : page[c & 255];
  }

 private:
  std::vector<std::vector<int32_t>> pages_;
};

class BpeModel : public Model {
 public:
  explicit BpeModel(const TokenizerSpec& spec)
      : model_(spec.model),
        in_model_(TokensOfModel(spec)),
        merges_(spec.merges.size()),
        words_(spec.tokens.size()),
        states_(spec.tokens.size()) {}

  Status Fill(const TokenizerSpec& spec) {
    FillRules(spec);
    FillWords(spec);
    FillSymbols(spec);
    FillCuts(spec);
    return {};
  }

  void Encode(std::string_view word, std::vector<int32_t>& out) const override {
    if (!cuts_before_mark_) return EncodeWord(word, out);
    // No rule joins what stands before a space mark to it, but for a few characters: the pieces
    // between merge as they would in the whole.
    size_t begin = 0;
    for (size_t at = word.find(kSpaceMark, 1); at != std::string_view::npos;
         at = word.find(kSpaceMark, at + 1)) {
      if (JoinsMark(ScanChar(word.data() + PreviousChar(word, at)).value)) continue;
      EncodeWord(word.substr(begin, at - begin), out);
      begin = at;
    }
    EncodeWord(word.substr(begin), out);
  }

 private:
  // Whether merging a token's own symbols gives it back, found out when it is first met.
  enum State : uint8_t { kUnmet = 0, kWhole = 1, kSplit = 2 };

  bool Is(uint32_t flag) const { return model_.Is(flag); }

  void FillRules(const TokenizerSpec& spec) {
    uint32_t rank = 0;
    for (size_t i = 0; i < spec.merges.size(); ++i) {
      const MergeRule& rule = spec.merges[i];
      const auto score = [&](size_t n) {
        return spec.scores[static_cast<size_t>(spec.merges[n].merged)];
      };
      const bool equal = Is(TokenModel::kRankByScore) && i > 0 && score(i) == score(i - 1);
      if (!equal) rank = static_cast<uint32_t>(i);
      merges_.Add(rule.left, rule.right, {rank, rule.merged});
    }
  }

  void FillWords(const TokenizerSpec& spec) {
    if (Is(TokenModel::kByteLevel)) {
      // The table's keys are views; they must not move.
      bytes_.reserve(TotalBytes(spec));
      for (size_t id = 0; id < spec.tokens.size(); ++id) {
        if (!in_model_[id]) continue;
        const auto bytes = BytesOfSymbols(spec.tokens[id]);
        if (!bytes) continue;
        const size_t at = bytes_.size();
        bytes_.append(*bytes);
        AddWord(std::string_view(bytes_).substr(at), id);
      }
      return;
    }
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (in_model_[id]) AddWord(spec.tokens[id], id);
    }
  }

  static size_t TotalBytes(const TokenizerSpec& spec) {
    size_t total = 0;
    for (const std::string& token : spec.tokens) total += token.size();
    return total;
  }

  void AddWord(std::string_view word, size_t id) { words_.Add(word, static_cast<int32_t>(id)); }

  void FillSymbols(const TokenizerSpec& spec) {
    byte_ids_.assign(256, -1);
    if (Is(TokenModel::kByteLevel)) {
      for (int b = 0; b < 256; ++b) {
        const char byte = static_cast<char>(b);
        byte_ids_[static_cast<size_t>(b)] = words_.Find(std::string_view(&byte, 1));
      }
      return;
    }
    if (Is(TokenModel::kByteFallback)) byte_ids_ = ByteTokenIds(spec);
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      const std::string& token = spec.tokens[id];
      if (!in_model_[id] || CharBytes(token.front()) != token.size()) continue;
      const char32_t c = ScanChar(token.data()).value;
      if (chars_.Find(c) < 0) chars_.Set(c, static_cast<int32_t>(id));
    }
  }

  // Finds whether text can be cut before every space mark, and which characters forbid it.
  void FillCuts(const TokenizerSpec& spec) {
    const bool plain = !Is(TokenModel::kByteLevel) && !Is(TokenModel::kIgnoreMerges) &&
                       model_.continuing_prefix.empty() && model_.word_suffix.empty();
    if (!plain || words_.Find(kSpaceMark) < 0) return;
    for (const MergeRule& rule : spec.merges) {
      const std::string& left = spec.tokens[static_cast<size_t>(rule.left)];
      const std::string& right = spec.tokens[static_cast<size_t>(rule.right)];
      if (ByteOfToken(left) >= 0 || ByteOfToken(right) >= 0) return;
      if (left.empty() || !right.starts_with(kSpaceMark)) continue;
      joins_mark_.insert(ScanChar(left.data() + PreviousChar(left, left.size())).value);
    }
    cuts_before_mark_ = true;
  }

  bool JoinsMark(char32_t c) const { return joins_mark_.contains(c); }

  void EncodeWord(std::string_view word, std::vector<int32_t>& out) const {
    const int32_t id = words_.Find(word);
    if (id < 0) return EncodeParts(word, out);
    const bool newlines =
        Is(TokenModel::kNewlineWords) && word.find_first_not_of('\n') == word.npos;
    if (Is(TokenModel::kIgnoreMerges) || newlines) return out.push_back(id);
    std::atomic<uint8_t>& state = states_[static_cast<size_t>(id)];
    switch (state.load(std::memory_order_relaxed)) {
      case kWhole:
        return out.push_back(id);
      case kSplit:
        return EncodeParts(word, out);
      default:
        break;
    }
    const size_t start = out.size();
    EncodeParts(word, out);
    const bool whole = out.size() == start + 1 && out[start] == id;
    state.store(whole ? kWhole : kSplit, std::memory_order_relaxed);
  }

  void EncodeParts(std::string_view word, std::vector<int32_t>& out) const {
    const size_t start = out.size();
    if (Is(TokenModel::kByteLevel)) {
      AppendByteSymbols(word, out);
    } else {
      AppendCharSymbols(word, out);
    }
    const size_t left = MergeSymbols(merges_, std::span(out).subspan(start));
    out.resize(start + left);
  }

  void AppendByteSymbols(std::string_view word, std::vector<int32_t>& out) const {
    bool pending = false;
    for (const char c : word) {
      const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
      if (id < 0) {
        AppendUnknown(pending, out);
        continue;
      }
      if (std::exchange(pending, false)) out.push_back(*model_.unk_id);
      out.push_back(id);
    }
    if (pending) out.push_back(*model_.unk_id);
  }

  // An unknown token waits, so that those that follow can join it.
  void AppendUnknown(bool& pending, std::vector<int32_t>& out) const {
    if (!model_.unk_id) return;
    if (pending && !Is(TokenModel::kFuseUnknown)) out.push_back(*model_.unk_id);
    pending = true;
  }

  void AppendCharSymbols(std::string_view word, std::vector<int32_t>& out) const {
    const bool decorated = !model_.continuing_prefix.empty() || !model_.word_suffix.empty();
    bool pending = false;
    for (size_t at = 0; at < word.size();) {
      const ScannedChar c = ScanChar(word.data() + at);
      const size_t end = at + c.bytes;
      const int32_t id = decorated ? DecoratedId(word, at, end) : chars_.Find(c.value);
      if (id >= 0) {
        if (std::exchange(pending, false)) out.push_back(*model_.unk_id);
        out.push_back(id);
      } else if (!Is(TokenModel::kByteFallback) || !AppendBytes(word.substr(at, c.bytes), out)) {
        AppendUnknown(pending, out);
      }
      at = end;
    }
    if (pending) out.push_back(*model_.unk_id);
  }

  // False, and nothing appended, if one of them is no token.
  bool AppendBytes(std::string_view bytes, std::vector<int32_t>& out) const {
    for (const char c : bytes) {
      if (byte_ids_[static_cast<uint8_t>(c)] < 0) return false;
    }
    for (const char c : bytes) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
    return true;
  }

  int32_t DecoratedId(std::string_view word, size_t at, size_t end) const {
    std::string symbol;
    if (at > 0) symbol = model_.continuing_prefix;
    symbol.append(word.substr(at, end - at));
    if (end == word.size()) symbol.append(model_.word_suffix);
    return words_.Find(symbol);
  }

  TokenModel model_;
  std::vector<bool> in_model_;
  MergeTable merges_;
  std::string bytes_;  // of all tokens, for byte-level vocabularies
  WordTable words_;
  mutable std::vector<std::atomic<uint8_t>> states_;
  std::vector<int32_t> byte_ids_;
  CharIds chars_;
  bool cuts_before_mark_ = false;
  std::unordered_set<char32_t> joins_mark_;
};

}  // namespace

Result<std::unique_ptr<Model>> MakeBpeModel(const TokenizerSpec& spec) {
  auto model = std::make_unique<BpeModel>(spec);
  TRY(model->Fill(spec));
  return model;
}

}  // namespace tandem::text
