#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "text/gguf_pre.h"
#include "text/score_merges.h"
#include "text/token_model.h"
#include "text/word_table.h"

namespace tandem::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

template <class Kind>
PipelineStep<Kind> StepOf(Kind kind, uint32_t flags = 0, std::string_view text = {},
                          std::string_view content = {}) {
  PipelineStep<Kind> step;
  step.kind = kind;
  step.flags = flags;
  step.text = text;
  step.content = content;
  return step;
}

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> texts) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Tokens that are control tokens by their text, whatever the file says: ends of turns, and what
// frames code to be filled in.
bool IsControlByText(std::string_view text) {
  return IsOneOf(text, {"<|eot_id|>",
                        "<|im_end|>",
                        "<|end|>",
                        "<|return|>",
                        "<|call|>",
                        "<|flush|>",
                        "<|calls|>",
                        "<end_of_turn>",
                        "<|endoftext|>",
                        "</s>",
                        "<|eom_id|>",
                        "<EOT>",
                        "_<EOT>",
                        "[EOT]",
                        "[EOS]",
                        "<|end_of_text|>",
                        "<end_of_utterance>",
                        "<eos>",
                        "<turn|>",
                        "<|tool_response>",
                        "<｜end▁of▁sentence｜>",
                        "[e~[",
                        "<|fim_prefix|>",
                        "<fim-prefix>",
                        "<fim_prefix>",
                        "<｜fim▁begin｜>",
                        "<PRE>",
                        "▁<PRE>",
                        "<|code_prefix|>",
                        "<|prefix|>",
                        "<|fim_suffix|>",
                        "<fim-suffix>",
                        "<fim_suffix>",
                        "<｜fim▁hole｜>",
                        "<SUF>",
                        "▁<SUF>",
                        "<|code_suffix|>",
                        "<|suffix|>",
                        "<|fim_middle|>",
                        "<fim-middle>",
                        "<fim_middle>",
                        "<｜fim▁end｜>",
                        "<MID>",
                        "▁<MID>",
                        "<|code_middle|>",
                        "<|middle|>",
                        "<|fim_pad|>",
                        "<fim-pad>",
                        "<fim_pad>",
                        "<PAD>",
                        "[PAD]",
                        "<|fim_repo|>",
                        "<|repo_name|>",
                        "<fim-repo>",
                        "<REPO>",
                        "<reponame>",
                        "<|file_sep|>"});
}

void SetTypes(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  spec.token_types.assign(spec.tokens.size(), TokenType::kNormal);
  std::unordered_set<std::string_view> present;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    TokenType& type = spec.token_types[id];
    if (!vocabulary.token_types.empty()) {
      const int32_t given = vocabulary.token_types[id];
      type = given >= 1 && given <= 6 ? static_cast<TokenType>(given) : TokenType::kUnused;
    }
    const std::string_view text = spec.tokens[id];
    if (IsControlByText(text)) {
      type = TokenType::kControl;
      present.insert(text);
    }
    // Parts of gpt-oss answers that are shown.
    if (IsOneOf(text, {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"})) {
      type = TokenType::kUserDefined;
    }
  }
  const auto has = [&](std::string_view text) { return present.contains(text); };
  const bool end_goes_on = (has("<|return|>") && (has("<|call|>") || has("<|calls|>"))) ||
                           ((has("<|call|>") || has("<|calls|>")) && has("<|flush|>"));
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (end_goes_on && spec.tokens[id] == "<|end|>") {
      spec.token_types[id] = TokenType::kUserDefined;
    }
    if (has("<|tool_response>") && spec.tokens[id] == "</s>") {
      spec.token_types[id] = TokenType::kNormal;
    }
  }
}

std::string Lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

// White space beside some tokens goes with them; files do not say which, so that it hangs on names.
uint32_t StripFlags(const GgufVocabulary& vocabulary, std::string_view token) {
  const auto contains = [](std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
      return text.find(part) != std::string_view::npos;
    });
  };
  const std::string name = Lower(vocabulary.name);
  if (contains(vocabulary.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      contains(vocabulary.architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    return token == "<mask>" ? AddedToken::kLeftStrip : 0;
  }
  if (contains(name, {"phi-3", "phi3"})) {
    return IsOneOf(token, {"<unk>", "<s>", "<|endoftext|>"}) ? 0 : AddedToken::kRightStrip;
  }
  if (contains(name, {"modern-bert"})) return token == "[MASK]" ? AddedToken::kLeftStrip : 0;
  return 0;
}

void SetAdded(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  spec.longest_added_first = true;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.token_types[id];
    const bool special = type == TokenType::kControl || type == TokenType::kUnknown;
    if (!special && type != TokenType::kUserDefined) continue;
    uint32_t flags = AddedToken::kInModel | StripFlags(vocabulary, spec.tokens[id]);
    if (special) flags |= AddedToken::kSpecial;
    spec.added.push_back({static_cast<int32_t>(id), flags});
  }
}

void SetAffixes(const std::optional<int32_t>& before, const std::optional<int32_t>& after,
                TokenizerSpec& spec) {
  if (before) spec.prefix = {*before};
  if (after) spec.suffix = {*after};
}

std::optional<int32_t> IfIn(int32_t id, const TokenizerSpec& spec) {
  if (static_cast<size_t>(id) < spec.tokens.size()) return id;
  return std::nullopt;
}

Status ReadMerges(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  WordTable ids(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    ids.Add(spec.tokens[id], static_cast<int32_t>(id));
  }
  std::unordered_set<uint64_t> seen;  // of equal pairs the first has the rank
  spec.merges.reserve(vocabulary.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string_view merge = vocabulary.merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return Err(Code::kCorrupt, "tokenizer merges: entry {} '{}' is not two symbols", rank, merge);
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    const MergeRule rule{ids.Find(left), ids.Find(right), ids.Find(joined)};
    if (rule.left < 0 || rule.right < 0 || rule.merged < 0) {
      return Err(Code::kCorrupt,
                 "tokenizer merges: entry {} '{}' has a symbol outside the vocabulary", rank,
                 merge);
    }
    const uint64_t pair =
        uint64_t{static_cast<uint32_t>(rule.left)} << 32 | static_cast<uint32_t>(rule.right);
    if (seen.insert(pair).second) spec.merges.push_back(rule);
  }
  return {};
}

void SetGgufDecoder(uint32_t flags, bool clean_spaces, TokenizerSpec& spec) {
  spec.decoders.push_back(StepOf(DecoderKind::kGguf, flags));
  if (clean_spaces) spec.decoders.push_back(StepOf(DecoderKind::kCleanSpaces));
}

Status FillBpe(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  const bool gemma4 = vocabulary.model == "gemma4";
  TRY_ASSIGN(const GgufPre pre, FindGgufPre(gemma4 ? "gemma4" : vocabulary.pre));
  TRY(ReadMerges(vocabulary, spec));
  spec.model.kind = ModelKind::kBpe;
  if (pre.ignore_merges) spec.model.flags |= TokenModel::kIgnoreMerges;
  for (const std::string_view pattern : pre.patterns) {
    auto step = StepOf(PreTokenizerKind::kSplitRegex, 0, pattern);
    step.number = static_cast<uint32_t>(SplitBehavior::kIsolated);
    spec.pre_tokenizers.push_back(std::move(step));
  }
  if (pre.plain_text) {
    spec.model.flags |= TokenModel::kByteFallback | TokenModel::kNewlineWords;
    spec.normalizers.push_back(StepOf(NormalizerKind::kReplaceText, 0, " ", kSpaceMark));
  } else {
    spec.model.flags |= TokenModel::kByteLevel;
    spec.pre_tokenizers.push_back(StepOf(PreTokenizerKind::kByteLevel));
  }
  SetGgufDecoder(pre.plain_text ? 2 : 1, pre.clean_spaces, spec);
  const bool gemma_bos = pre.plain_text && pre.clean_spaces;
  const bool bos = gemma_bos || vocabulary.add_bos.value_or(pre.add_bos);
  SetAffixes(bos ? spec.bos_id : std::nullopt,
             vocabulary.add_eos.value_or(false) ? spec.eos_id : std::nullopt, spec);
  return {};
}

Status FillSpm(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  if (!spec.bos_id) spec.bos_id = IfIn(1, spec);
  if (!spec.eos_id) spec.eos_id = IfIn(2, spec);
  if (!spec.unk_id) spec.unk_id = IfIn(0, spec);
  spec.model.kind = ModelKind::kBpe;
  spec.model.flags = TokenModel::kByteFallback | TokenModel::kRankByScore;
  if (spec.scores.empty()) spec.scores.assign(spec.tokens.size(), 0.0F);
  TRY(AddScoreMerges(std::vector<bool>(spec.tokens.size(), true), spec));
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  if (prefix) spec.normalizers.push_back(StepOf(NormalizerKind::kPrepend, 0, "", kSpaceMark));
  spec.normalizers.push_back(StepOf(NormalizerKind::kReplaceText, 0, " ", kSpaceMark));
  SetGgufDecoder(2U | (prefix ? 4U : 0U), false, spec);
  SetAffixes(vocabulary.add_bos.value_or(true) ? spec.bos_id : std::nullopt,
             vocabulary.add_eos.value_or(false) ? spec.eos_id : std::nullopt, spec);
  return {};
}

Status FillUnigram(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  if (!spec.eos_id) spec.eos_id = IfIn(1, spec);
  if (!spec.unk_id) spec.unk_id = IfIn(2, spec);
  if (!spec.pad_id) spec.pad_id = IfIn(0, spec);
  if (spec.scores.empty()) spec.scores.assign(spec.tokens.size(), 0.0F);
  spec.model.kind = ModelKind::kUnigram;
  spec.model.flags = TokenModel::kFuseUnknown | TokenModel::kMatchUnused;
  spec.model.unk_id = spec.unk_id;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] == TokenType::kUserDefined) spec.scores[id] = 0;
  }
  // Words are made of normal tokens and those of the user; control tokens are found in the text.
  for (AddedToken& added : spec.added) {
    if (added.Is(AddedToken::kSpecial)) added.flags &= ~AddedToken::kInModel;
  }
  if (!vocabulary.charsmap.empty()) {
    spec.normalizers.push_back(StepOf(NormalizerKind::kCharsmapSpm, 0, vocabulary.charsmap));
  }
  const bool squeeze = vocabulary.remove_extra_whitespaces.value_or(false);
  const bool prefix = vocabulary.add_space_prefix.value_or(false);
  if (squeeze) spec.normalizers.push_back(StepOf(NormalizerKind::kSqueezeSpaces));
  if (squeeze || prefix) {
    spec.normalizers.push_back(
        StepOf(NormalizerKind::kPrepend, kPrependUnlessBlank, "", kSpaceMark));
  }
  spec.normalizers.push_back(StepOf(NormalizerKind::kReplaceText, 0, " ", kSpaceMark));
  SetGgufDecoder(2U | (prefix ? 4U : 0U), false, spec);
  SetAffixes(vocabulary.add_bos.value_or(false) ? spec.bos_id : std::nullopt,
             vocabulary.add_eos.value_or(true) ? spec.eos_id : std::nullopt, spec);
  return {};
}

Status FillBert(const GgufVocabulary& vocabulary, TokenizerSpec& spec) {
  if (!spec.bos_id) spec.bos_id = IfIn(101, spec);
  if (!spec.unk_id) spec.unk_id = IfIn(100, spec);
  if (!spec.pad_id) spec.pad_id = IfIn(0, spec);
  const auto separator = vocabulary.separator ? vocabulary.separator : IfIn(102, spec);
  spec.model.kind = ModelKind::kWordPiece;
  spec.model.unk_id = spec.unk_id;
  const bool lowercase = vocabulary.lowercase.value_or(true);
  const bool strip = vocabulary.strip_accents.value_or(lowercase);
  const auto drop = [&](std::string_view pattern) {
    spec.normalizers.push_back(StepOf(NormalizerKind::kReplaceRegex, 0, pattern));
  };
  if (strip) spec.normalizers.push_back(StepOf(NormalizerKind::kNfdFirst));
  drop(R"([\p{Cc}\p{Cf}\p{Co}\x{FFFD}&&\S])");
  if (strip) drop(R"(\p{M})");
  if (lowercase) spec.normalizers.push_back(StepOf(NormalizerKind::kLowercase));
  spec.normalizers.push_back(StepOf(NormalizerKind::kBert, kBertChineseChars));
  spec.pre_tokenizers.push_back(StepOf(PreTokenizerKind::kWhitespaceSplit));
  auto marks = StepOf(PreTokenizerKind::kSplitRegex, 0, R"(\p{P}|[\x00-\x7E&&\p{S}])");
  marks.number = static_cast<uint32_t>(SplitBehavior::kIsolated);
  spec.pre_tokenizers.push_back(std::move(marks));
  spec.pre_tokenizers.push_back(StepOf(PreTokenizerKind::kMetaspace, kMetaspaceAlways, kSpaceMark));
  SetGgufDecoder(2U | (vocabulary.add_space_prefix.value_or(false) ? 4U : 0U), true, spec);
  SetAffixes(spec.bos_id, separator, spec);
  return {};
}

}  // namespace

Result<TokenizerSpec> ReadGgufVocabulary(GgufVocabulary vocabulary) {
  TokenizerSpec spec;
  spec.tokens = std::move(vocabulary.tokens);
  spec.scores = vocabulary.scores;
  spec.bos_id = vocabulary.bos;
  spec.eos_id = vocabulary.eos;
  spec.eot_id = vocabulary.eot;
  spec.unk_id = vocabulary.unknown;
  spec.pad_id = vocabulary.padding;
  spec.chat_template = std::move(vocabulary.chat_template);
  for (auto& [name, text] : vocabulary.named_templates)
    spec.named_templates.push_back({name, text});
  if (!vocabulary.token_types.empty() && vocabulary.token_types.size() != spec.tokens.size()) {
    return Err(Code::kCorrupt, "tokenizer token_type: {} entries for {} tokens",
               vocabulary.token_types.size(), spec.tokens.size());
  }
  SetTypes(vocabulary, spec);
  SetAdded(vocabulary, spec);
  if (vocabulary.model == "gpt2" || vocabulary.model == "gemma4") {
    TRY(FillBpe(vocabulary, spec));
  } else if (vocabulary.model == "llama") {
    TRY(FillSpm(vocabulary, spec));
  } else if (vocabulary.model == "t5") {
    TRY(FillUnigram(vocabulary, spec));
  } else if (vocabulary.model == "bert") {
    TRY(FillBert(vocabulary, spec));
  } else {
    return Err(Code::kUnsupported,
               "tokenizer.ggml.model: '{}' is not supported; supported are bert, gemma4, gpt2, "
               "llama and t5",
               vocabulary.model);
  }
  return spec;
}

}  // namespace tandem::text
