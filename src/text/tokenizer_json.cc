#include "text/tokenizer_json.h"

#include <simdjson.h>

#include <string>
#include <utility>

#include "text/json_access.h"
#include "text/token_model.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json_steps.h"
#include "text/word_table.h"

namespace tandem::text {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxJsonBytes = size_t{256} << 20;

std::unexpected<Error> Damaged(std::string_view where, std::string_view what) {
  return Err(Code::kCorrupt, "tokenizer.json: {}: {}; the file is damaged: download it again",
             where, what);
}

Status SetToken(std::string_view text, uint64_t id, TokenizerSpec& spec) {
  if (id >= kMaxTokens) return Damaged("model.vocab", "an id is above two million");
  if (id >= spec.tokens.size()) spec.tokens.resize(id + 1);
  spec.tokens[id] = text;
  return {};
}

// {"token": id}
Status ReadVocabObject(const simdjson::dom::object& vocab, TokenizerSpec& spec) {
  spec.tokens.reserve(vocab.size());
  for (const auto& [text, value] : vocab) {
    uint64_t id = 0;
    if (value.get(id)) return Damaged("model.vocab", "an id is no number");
    TRY(SetToken(text, id, spec));
  }
  return {};
}

// [["token", score]]
Status ReadVocabList(const simdjson::dom::array& vocab, TokenizerSpec& spec) {
  for (const element entry : vocab) {
    std::string_view text;
    double score = 0;
    if (entry.at(0).get(text) || entry.at(1).get(score)) {
      return Damaged("model.vocab", "an entry is not a token and its score");
    }
    TRY(SetToken(text, spec.tokens.size(), spec));
    spec.scores.push_back(static_cast<float>(score));
  }
  return {};
}

Status ReadVocab(const element& model, TokenizerSpec& spec) {
  const auto vocab = access::Member(model, "vocab");
  if (!vocab) return Damaged("model.vocab", "it is missing");
  simdjson::dom::object object;
  if (!vocab->get(object)) return ReadVocabObject(object, spec);
  simdjson::dom::array list;
  if (!vocab->get(list)) return ReadVocabList(list, spec);
  return Damaged("model.vocab", "it is neither an object nor a list");
}

// "left right" or ["left", "right"].
std::optional<std::pair<std::string_view, std::string_view>> ReadPair(const element& entry) {
  std::string_view text;
  if (!entry.get(text)) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }
  std::string_view left;
  std::string_view right;
  if (entry.at(0).get(left) || entry.at(1).get(right)) return std::nullopt;
  return std::pair(left, right);
}

Status ReadMerges(const element& model, TokenizerSpec& spec) {
  simdjson::dom::array merges;
  if (model["merges"].get(merges)) return Damaged("model.merges", "it is missing or no list");
  WordTable ids(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!spec.tokens[id].empty()) ids.Add(spec.tokens[id], static_cast<int32_t>(id));
  }
  spec.merges.reserve(std::min(merges.size(), kMaxMerges));
  const size_t prefix = spec.model.continuing_prefix.size();
  std::string joined;
  for (const element entry : merges) {
    const auto pair = ReadPair(entry);
    if (!pair) return Damaged("model.merges", "an entry is not two tokens");
    if (spec.merges.size() >= kMaxMerges) return Damaged("model.merges", "there are too many");
    joined.assign(pair->first).append(pair->second.substr(std::min(prefix, pair->second.size())));
    const MergeRule rule{ids.Find(pair->first), ids.Find(pair->second), ids.Find(joined)};
    if (rule.left < 0 || rule.right < 0 || rule.merged < 0) {
      return Err(Code::kCorrupt,
                 "tokenizer.json: model.merges: entry {} '{}' '{}' has a token outside the "
                 "vocabulary; the file is damaged: download it again",
                 spec.merges.size(), pair->first.substr(0, 100), pair->second.substr(0, 100));
    }
    spec.merges.push_back(rule);
  }
  return {};
}

Status ReadUnknown(const element& model, TokenizerSpec& spec) {
  if (const auto id = access::Uint(model, "unk_id")) {
    if (*id >= spec.tokens.size()) return Damaged("model.unk_id", "it is outside the vocabulary");
    spec.model.unk_id = static_cast<int32_t>(*id);
  }
  const auto text = access::Text(model, "unk_token");
  if (!text) return {};
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id] == *text) spec.model.unk_id = static_cast<int32_t>(id);
  }
  return {};
}

// Old files lack the type; BPE is the one with merges.
std::string_view TypeOf(const element& model) {
  if (const auto type = access::Text(model, "type")) return *type;
  if (access::Member(model, "merges")) return "BPE";
  if (access::Member(model, "continuing_subword_prefix")) return "WordPiece";
  return access::Member(model, "unk_id") ? "Unigram" : "WordLevel";
}

uint32_t FlagIf(const element& model, std::string_view key, uint32_t flag) {
  return access::Bool(model, key).value_or(false) ? flag : 0;
}

Status ReadModel(const element& json, TokenizerSpec& spec) {
  const auto model = access::Member(json, "model");
  if (!model) return Damaged("model", "it is missing");
  const std::string_view type = TypeOf(*model);
  TRY(ReadVocab(*model, spec));
  const auto text = [&](std::string_view key) {
    return std::string(access::Text(*model, key).value_or(""));
  };
  spec.model.flags = FlagIf(*model, "byte_fallback", TokenModel::kByteFallback);
  if (type == "BPE") {
    spec.model.kind = ModelKind::kBpe;
    spec.model.continuing_prefix = text("continuing_subword_prefix");
    spec.model.word_suffix = text("end_of_word_suffix");
    spec.model.flags |= FlagIf(*model, "fuse_unk", TokenModel::kFuseUnknown) |
                        FlagIf(*model, "ignore_merges", TokenModel::kIgnoreMerges);
    TRY(ReadMerges(*model, spec));
  } else if (type == "Unigram") {
    spec.model.kind = ModelKind::kUnigram;
    spec.model.flags |= TokenModel::kFuseUnknown;
    if (spec.scores.size() != spec.tokens.size()) {
      return Damaged("model.vocab", "a unigram vocabulary needs scores");
    }
  } else if (type == "WordPiece") {
    spec.model.kind = ModelKind::kWordPiece;
    spec.model.continuing_prefix = access::Text(*model, "continuing_subword_prefix").value_or("##");
    spec.model.max_word_chars = static_cast<uint32_t>(std::min<uint64_t>(
        access::Uint(*model, "max_input_chars_per_word").value_or(100), 1 << 30));
  } else if (type == "WordLevel") {
    spec.model.kind = ModelKind::kWordLevel;
  } else {
    return Err(Code::kUnsupported,
               "tokenizer.json: model of type '{}' is not supported; supported are BPE, Unigram, "
               "WordLevel and WordPiece",
               type.substr(0, 100));
  }
  return ReadUnknown(*model, spec);
}

Status ReadAdded(const element& json, size_t model_size, TokenizerSpec& spec) {
  simdjson::dom::array added;
  if (json["added_tokens"].get(added)) return {};
  std::vector<NewToken> tokens;
  for (const element token : added) {
    const auto content = access::Text(token, "content");
    if (!content) return Damaged("added_tokens", "an entry has no content");
    const uint32_t flags = FlagIf(token, "special", AddedToken::kSpecial) |
                           FlagIf(token, "single_word", AddedToken::kSingleWord) |
                           FlagIf(token, "lstrip", AddedToken::kLeftStrip) |
                           FlagIf(token, "rstrip", AddedToken::kRightStrip) |
                           FlagIf(token, "normalized", AddedToken::kNormalized);
    tokens.push_back({*content, flags});
  }
  if (!AddTokens(tokens, model_size, spec)) return Damaged("added_tokens", "there are too many");
  return {};
}

void SetTypes(TokenizerSpec& spec) {
  spec.token_types.assign(spec.tokens.size(), TokenType::kNormal);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.tokens[id].empty()) spec.token_types[id] = TokenType::kUnused;
    if (spec.model.Is(TokenModel::kByteFallback) && ByteOfToken(spec.tokens[id]) >= 0) {
      spec.token_types[id] = TokenType::kByte;
    }
  }
  for (const AddedToken& added : spec.added) {
    spec.token_types[static_cast<size_t>(added.id)] =
        added.Is(AddedToken::kSpecial) ? TokenType::kControl : TokenType::kUserDefined;
  }
  if (!spec.scores.empty()) spec.scores.resize(spec.tokens.size());
  if (spec.model.unk_id) {
    spec.token_types[static_cast<size_t>(*spec.model.unk_id)] = TokenType::kUnknown;
    spec.unk_id = spec.model.unk_id;
  }
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerJson(std::string_view json,
                                        std::string_view tokenizer_config_json) {
  if (json.size() > kMaxJsonBytes) {
    return Err(Code::kTooLarge, "tokenizer.json: {} bytes; at most {} are supported", json.size(),
               kMaxJsonBytes);
  }
  simdjson::dom::parser parser(kMaxJsonBytes + simdjson::SIMDJSON_PADDING);
  element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root)) {
    return Damaged("it is no JSON", simdjson::error_message(error));
  }
  TokenizerSpec spec;
  TRY(ReadModel(root, spec));
  size_t model_size = 0;
  for (const std::string& token : spec.tokens) model_size += token.empty() ? 0 : 1;
  TRY(ReadAdded(root, model_size, spec));
  SetTypes(spec);
  const auto read = [&](std::string_view part, Status (*reader)(const element&, TokenizerSpec&)) {
    const auto member = access::Member(root, part);
    return member ? reader(*member, spec) : Status();
  };
  TRY(read("normalizer", ReadNormalizers));
  TRY(read("pre_tokenizer", ReadPreTokenizers));
  TRY(read("post_processor", ReadPostProcessor));
  TRY(read("decoder", ReadDecoders));
  if (!tokenizer_config_json.empty()) TRY(ApplyTokenizerConfig(tokenizer_config_json, spec));
  if (Status valid = Validate(spec); !valid) {
    return Err(Code::kCorrupt, "tokenizer.json: {}", valid.error().message);
  }
  return spec;
}

}  // namespace tandem::text
