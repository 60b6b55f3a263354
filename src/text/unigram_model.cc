// The unigram model: the split of a word whose scores sum to the most.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "text/byte_trie.h"
#include "text/token_model.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

// How much worse than the worst token an unknown character is.
constexpr double kUnknownPenalty = 10.0;

class UnigramModel : public Model {
 public:
  explicit UnigramModel(const TokenizerSpec& spec)
      : model_(spec.model), scores_(spec.scores), trie_(spec.tokens.size() * 4) {}

  Status Fill(const TokenizerSpec& spec) {
    const std::vector<bool> in = TokensOfModel(spec);
    double least = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < spec.tokens.size(); ++id) {
      if (!in[id]) continue;
      const TokenType type = spec.token_types.empty() ? TokenType::kNormal : spec.token_types[id];
      if (std::isinf(scores_[id])) continue;  // never to be made
      const bool unused = type == TokenType::kUnused;
      if (unused && !model_.Is(TokenModel::kMatchUnused)) continue;
      if (!unused) least = std::min<double>(least, scores_[id]);
      if (!trie_.Add(spec.tokens[id], static_cast<int32_t>(id))) {
        return Err(Code::kTooLarge, "tokenizer tokens: more bytes than a unigram model may have");
      }
    }
    unknown_score_ = least - kUnknownPenalty;
    if (model_.Is(TokenModel::kByteFallback)) byte_ids_ = ByteTokenIds(spec);
    return {};
  }

  void Encode(std::string_view word, std::vector<int32_t>& out) const override {
    thread_local std::vector<Node> nodes;
    nodes.assign(word.size() + 1, Node());
    FindBest(word, nodes);
    // From the end, a run of unknown characters as one piece where they fuse.
    const size_t start = out.size();
    for (size_t end = word.size(); end > 0;) {
      size_t begin = nodes[end].from;
      const int32_t id = nodes[end].id;
      if (id == kUnknown && model_.Is(TokenModel::kFuseUnknown)) {
        while (begin > 0 && nodes[begin].id == kUnknown) begin = nodes[begin].from;
      }
      if (id == kUnknown) {
        AppendUnknownReversed(word.substr(begin, end - begin), out);
      } else {
        out.push_back(id);
      }
      end = begin;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(start), out.end());
  }

 private:
  static constexpr int32_t kUnknown = -1;
  static constexpr uint32_t kUnreached = 0xFFFFFFFF;
  struct Node {
    double score = 0;
    uint32_t from = kUnreached;
    int32_t id = kUnknown;
  };

  void FindBest(std::string_view word, std::span<Node> nodes) const {
    for (size_t at = 0; at < word.size();) {
      const double here = nodes[at].score;
      const size_t char_bytes = CharBytes(word[at]);
      bool single = false;
      const auto offer = [&](size_t bytes, double score, int32_t id) {
        Node& node = nodes[at + bytes];
        if (node.from != kUnreached && here + score <= node.score) return;
        node = {here + score, static_cast<uint32_t>(at), id};
      };
      trie_.ForEachPrefix(word.substr(at), [&](size_t bytes, int32_t id) {
        const bool unknown = model_.unk_id == id;
        offer(bytes, scores_[static_cast<size_t>(id)], unknown ? kUnknown : id);
        single |= bytes == char_bytes;
      });
      if (!single) offer(char_bytes, unknown_score_, kUnknown);
      at += char_bytes;
    }
  }

  // Byte tokens last first, or the unknown token.
  void AppendUnknownReversed(std::string_view text, std::vector<int32_t>& out) const {
    const bool bytes = !byte_ids_.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
      return byte_ids_[static_cast<uint8_t>(c)] >= 0;
    });
    if (bytes) {
      for (size_t i = text.size(); i > 0; --i) {
        out.push_back(byte_ids_[static_cast<uint8_t>(text[i - 1])]);
      }
    } else if (model_.unk_id) {
      out.push_back(*model_.unk_id);
    }
  }

  TokenModel model_;
  std::vector<float> scores_;
  ByteTrie trie_;
  double unknown_score_ = 0;
  std::vector<int32_t> byte_ids_;
};

}  // namespace

Result<std::unique_ptr<Model>> MakeUnigramModel(const TokenizerSpec& spec) {
  auto model = std::make_unique<UnigramModel>(spec);
  TRY(model->Fill(spec));
  return model;
}

}  // namespace tandem::text
