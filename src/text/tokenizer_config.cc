#include "text/tokenizer_config.h"

#include <simdjson.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/json_access.h"

namespace tandem::text {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxJsonBytes = size_t{32} << 20;

// Python writes integers of any size ("model_max_length": 1000000000000000019884624838656), the
// JSON parser takes those of 64 bits: longer ones are made floating-point numbers.
std::string WithoutLargeIntegers(std::string_view json) {
  constexpr size_t kSafeDigits = 18;
  std::string out;
  out.reserve(json.size() + 16);
  bool in_string = false;
  size_t digits = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const bool digit = !in_string && c >= '0' && c <= '9';
    if (!digit && digits > kSafeDigits && c != '.' && c != 'e' && c != 'E') out += "e0";
    digits = digit ? digits + 1 : 0;
    out += c;
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\' && i + 1 < json.size()) out += json[++i];
  }
  return out;
}

Status Parse(std::string_view file, std::string_view json, simdjson::dom::parser& parser,
             simdjson::dom::object& root) {
  std::string_view what = "it is larger than 32 MiB";
  if (json.size() <= kMaxJsonBytes) {
    const auto error = parser.parse(WithoutLargeIntegers(json)).get(root);
    if (!error) return {};
    what = simdjson::error_message(error);
  }
  return Err(Code::kCorrupt, "{}: {}; the file is damaged: download it again", file, what);
}

std::optional<int32_t> FindToken(std::string_view text, const TokenizerSpec& spec) {
  // Added tokens are where names point; the vocabulary is long.
  for (const AddedToken& added : spec.added) {
    if (spec.tokens[static_cast<size_t>(added.id)] == text) return added.id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  if (text.empty() || found == spec.tokens.end()) return std::nullopt;
  return static_cast<int32_t>(found - spec.tokens.begin());
}

// "text" or {"content": "text"}.
std::optional<int32_t> NamedToken(const element& root, std::string_view key,
                                  const TokenizerSpec& spec) {
  auto text = access::Text(root, key);
  if (!text) {
    const auto object = access::Member(root, key);
    if (object) text = access::Text(*object, "content");
  }
  return text ? FindToken(*text, spec) : std::nullopt;
}

void ReadNames(const element& root, TokenizerSpec& spec) {
  const auto set = [&](std::string_view key, std::optional<int32_t>& id) {
    if (const auto named = NamedToken(root, key, spec)) id = named;
  };
  set("bos_token", spec.bos_id);
  set("eos_token", spec.eos_id);
  set("unk_token", spec.unk_id);
  set("pad_token", spec.pad_id);
}

uint32_t FlagIf(const element& token, std::string_view key, uint32_t flag) {
  return access::Bool(token, key).value_or(false) ? flag : 0;
}

void ReadAddedTokens(const element& root, TokenizerSpec& spec) {
  simdjson::dom::object tokens;
  if (root["added_tokens_decoder"].get(tokens)) return;
  size_t model_size = 0;
  for (const std::string& token : spec.tokens) model_size += token.empty() ? 0 : 1;
  for (const AddedToken& added : spec.added) model_size -= added.Is(AddedToken::kInModel) ? 0 : 1;
  std::vector<NewToken> fresh;
  std::unordered_set<std::string_view> known(spec.tokens.begin(), spec.tokens.end());
  for (const auto& [id, token] : tokens) {
    const auto content = access::Text(token, "content");
    if (!content || known.contains(*content)) continue;
    const uint32_t flags = FlagIf(token, "special", AddedToken::kSpecial) |
                           FlagIf(token, "single_word", AddedToken::kSingleWord) |
                           FlagIf(token, "lstrip", AddedToken::kLeftStrip) |
                           FlagIf(token, "rstrip", AddedToken::kRightStrip) |
                           FlagIf(token, "normalized", AddedToken::kNormalized);
    fresh.push_back({*content, flags});
  }
  if (!fresh.empty()) AddTokens(fresh, model_size, spec);
}

// Tokenizers of these classes make their own prefix and suffix, whatever tokenizer.json says.
bool MakesOwnAffixes(std::string_view tokenizer_class) {
  if (tokenizer_class.ends_with("Fast")) tokenizer_class.remove_suffix(4);
  return tokenizer_class == "LlamaTokenizer" || tokenizer_class == "CodeLlamaTokenizer" ||
         tokenizer_class == "GemmaTokenizer" || tokenizer_class == "CohereTokenizer";
}

void ReadAffixes(const element& root, TokenizerSpec& spec) {
  const auto add_bos = access::Bool(root, "add_bos_token");
  const auto add_eos = access::Bool(root, "add_eos_token");
  const bool own = MakesOwnAffixes(access::Text(root, "tokenizer_class").value_or(""));
  if (!own && !add_bos && !add_eos) return;
  if (own || add_bos) {
    spec.prefix.clear();
    if (add_bos.value_or(true) && spec.bos_id) spec.prefix = {*spec.bos_id};
  }
  if (own || add_eos) {
    spec.suffix.clear();
    if (add_eos.value_or(false) && spec.eos_id) spec.suffix = {*spec.eos_id};
  }
}

// A text, or a list of {"name", "template"} of which "default" is the one to use.
Status ReadTemplates(const element& root, TokenizerSpec& spec) {
  if (const auto text = access::Text(root, "chat_template")) {
    spec.chat_template = *text;
    return {};
  }
  simdjson::dom::array list;
  if (root["chat_template"].get(list)) return {};
  for (const element entry : list) {
    const auto name = access::Text(entry, "name");
    const auto text = access::Text(entry, "template");
    if (!name || !text) {
      return Err(Code::kCorrupt,
                 "tokenizer_config.json: chat_template: an entry lacks its name or template; the "
                 "file is damaged: download it again");
    }
    if (*name == "default") {
      spec.chat_template = *text;
    } else {
      spec.named_templates.push_back({std::string(*name), std::string(*text)});
    }
  }
  return {};
}

}  // namespace

bool AddTokens(const std::vector<NewToken>& tokens, size_t model_size, TokenizerSpec& spec) {
  // Where the vocabulary has them, found in one walk over it.
  std::unordered_map<std::string_view, std::optional<size_t>> ids;
  std::unordered_map<std::string_view, size_t> added;
  for (const NewToken& token : tokens) ids.emplace(token.content, std::nullopt);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto wanted = ids.find(spec.tokens[id]);
    if (wanted != ids.end()) wanted->second = id;
  }
  size_t next = model_size;
  for (size_t i = 0; i < spec.added.size(); ++i) {
    const auto id = static_cast<size_t>(spec.added[i].id);
    next = std::max(next, id + 1);
    if (const auto known = ids.find(spec.tokens[id]); known != ids.end()) {
      added.emplace(known->first, i);
    }
  }
  for (const NewToken& token : tokens) {
    if (token.content.empty()) continue;
    if (const auto known = added.find(token.content); known != added.end()) {
      AddedToken& old = spec.added[known->second];
      old.flags = token.flags | (old.flags & AddedToken::kInModel);
      continue;
    }
    const std::optional<size_t> in_model = ids.at(token.content);
    const size_t id = in_model.value_or(next);
    if (id >= kMaxTokens) return false;
    // The next token that is new stands after all added ones, those of the model included.
    next = std::max(next, id + 1);
    added.emplace(token.content, spec.added.size());
    spec.added.push_back(
        {static_cast<int32_t>(id), token.flags | (in_model ? AddedToken::kInModel : 0)});
    if (in_model) continue;
    if (id >= spec.tokens.size()) {
      spec.tokens.resize(id + 1);
      if (!spec.token_types.empty()) spec.token_types.resize(id + 1, TokenType::kNormal);
      if (!spec.scores.empty()) spec.scores.resize(id + 1);
    }
    spec.tokens[id] = token.content;
    if (spec.token_types.empty()) continue;
    spec.token_types[id] =
        (token.flags & AddedToken::kSpecial) != 0 ? TokenType::kControl : TokenType::kUserDefined;
  }
  return true;
}

Status ApplyTokenizerConfig(std::string_view tokenizer_config_json, TokenizerSpec& spec) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  TRY(Parse("tokenizer_config.json", tokenizer_config_json, parser, object));
  const element root = parser.doc.root();
  ReadAddedTokens(root, spec);
  ReadNames(root, spec);
  ReadAffixes(root, spec);
  return ReadTemplates(root, spec);
}

Status ApplyAddedTokens(std::string_view json, TokenizerSpec& spec) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  TRY(Parse("added_tokens.json", json, parser, object));
  std::vector<std::pair<uint64_t, NewToken>> tokens;
  for (const auto& [text, value] : object) {
    uint64_t id = 0;
    if (value.get(id)) {
      return Err(Code::kCorrupt,
                 "added_tokens.json: the id of '{}' is no number; the file is damaged: download it "
                 "again",
                 text.substr(0, 100));
    }
    tokens.push_back({id, {text, 0}});
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.content) < std::tie(b.first, b.second.content);
  });
  std::vector<NewToken> fresh;
  for (const auto& [id, token] : tokens) {
    if (!FindToken(token.content, spec)) fresh.push_back(token);
  }
  AddTokens(fresh, spec.tokens.size(), spec);
  return {};
}

Status ApplySpecialTokensMap(std::string_view json, TokenizerSpec& spec) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  TRY(Parse("special_tokens_map.json", json, parser, object));
  const element root = parser.doc.root();
  const auto set = [&](std::string_view key, std::optional<int32_t>& id) {
    if (!id) id = NamedToken(root, key, spec);
  };
  set("bos_token", spec.bos_id);
  set("eos_token", spec.eos_id);
  set("unk_token", spec.unk_id);
  set("pad_token", spec.pad_id);
  return {};
}

}  // namespace tandem::text
