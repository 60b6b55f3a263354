#include "text/tekken.h"

#include <simdjson.h>

#include <array>
#include <string>

#include "text/base64.h"
#include "text/byte_alphabet.h"
#include "text/json_access.h"
#include "text/score_merges.h"

namespace tandem::text {
namespace {

using simdjson::dom::element;

constexpr size_t kMaxJsonBytes = size_t{256} << 20;

constexpr std::array<std::string_view, 20> kFirstSpecial = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

std::unexpected<Error> Damaged(std::string_view what) {
  return Err(Code::kCorrupt, "tekken.json: {}; the file is damaged: download it again", what);
}

Status ReadSpecial(const element& root, size_t count, TokenizerSpec& spec) {
  for (size_t id = 0; id < count; ++id) {
    spec.tokens[id] = id < kFirstSpecial.size() ? std::string(kFirstSpecial[id])
                                                : fmt::format("<SPECIAL_{}>", id);
  }
  simdjson::dom::array listed;
  if (!root["special_tokens"].get(listed)) {
    for (const element token : listed) {
      const auto rank = access::Uint(token, "rank");
      const auto text = access::Text(token, "token_str");
      if (!rank || !text || *rank >= count) return Damaged("a special token is wrong");
      spec.tokens[*rank] = *text;
    }
  }
  for (size_t id = 0; id < count; ++id) {
    spec.token_types[id] = TokenType::kControl;
    spec.added.push_back({static_cast<int32_t>(id), AddedToken::kSpecial});
  }
  return {};
}

Status ReadTokens(const element& root, size_t special, TokenizerSpec& spec) {
  simdjson::dom::array vocab;
  if (root["vocab"].get(vocab)) return Damaged("it has no vocab");
  for (const element token : vocab) {
    const auto rank = access::Uint(token, "rank");
    const auto bytes = DecodeBase64(access::Text(token, "token_bytes").value_or("!"));
    if (!rank || !bytes || bytes->empty()) return Damaged("a token is wrong");
    // The list goes on beyond the tokens that the model knows.
    if (*rank >= spec.tokens.size() - special) continue;
    std::string& text = spec.tokens[special + *rank];
    if (!text.empty()) return Damaged("two tokens have the same rank");
    AppendSymbolsOfBytes(*bytes, text);
    spec.scores[special + *rank] = -static_cast<float>(*rank);
  }
  return {};
}

void Name(std::string_view text, const TokenizerSpec& spec, std::optional<int32_t>& name) {
  for (const AddedToken& added : spec.added) {
    if (spec.tokens[static_cast<size_t>(added.id)] == text) name = added.id;
  }
}

}  // namespace

Result<TokenizerSpec> ReadTekken(std::string_view json) {
  if (json.size() > kMaxJsonBytes) return Damaged("it is larger than 256 MiB");
  simdjson::dom::parser parser(kMaxJsonBytes + simdjson::SIMDJSON_PADDING);
  element root;
  if (parser.parse(json.data(), json.size()).get(root)) return Damaged("it is no JSON");
  const auto config = access::Member(root, "config");
  if (!config) return Damaged("it has no config");
  const auto pattern = access::Text(*config, "pattern");
  const uint64_t size = access::Uint(*config, "default_vocab_size").value_or(0);
  const uint64_t special = access::Uint(*config, "default_num_special_tokens").value_or(0);
  if (!pattern || size > kMaxTokens || special >= size) return Damaged("its config is wrong");
  TokenizerSpec spec;
  spec.tokens.resize(size);
  spec.scores.resize(size);
  spec.token_types.resize(size, TokenType::kNormal);
  TRY(ReadSpecial(root, special, spec));
  TRY(ReadTokens(root, special, spec));
  spec.model.kind = ModelKind::kBpe;
  spec.model.flags = TokenModel::kByteLevel | TokenModel::kRankByScore | TokenModel::kIgnoreMerges;
  std::vector<bool> mergeable(size, true);
  std::fill(mergeable.begin(), mergeable.begin() + static_cast<std::ptrdiff_t>(special), false);
  TRY(AddScoreMerges(mergeable, spec));
  PipelineStep<PreTokenizerKind>& split = spec.pre_tokenizers.emplace_back();
  split.kind = PreTokenizerKind::kSplitRegex;
  split.text = *pattern;
  split.number = static_cast<uint32_t>(SplitBehavior::kIsolated);
  spec.pre_tokenizers.emplace_back().kind = PreTokenizerKind::kByteLevel;
  PipelineStep<DecoderKind>& decoder = spec.decoders.emplace_back();
  decoder.kind = DecoderKind::kGguf;
  decoder.flags = 1;
  Name("<unk>", spec, spec.unk_id);
  Name("<s>", spec, spec.bos_id);
  Name("</s>", spec, spec.eos_id);
  Name("<pad>", spec, spec.pad_id);
  if (spec.bos_id) spec.prefix = {*spec.bos_id};
  if (Status valid = Validate(spec); !valid) return Damaged(valid.error().message);
  return spec;
}

}  // namespace tandem::text
