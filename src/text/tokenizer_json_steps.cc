#include "text/tokenizer_json_steps.h"

#include <simdjson.h>

#include <limits>
#include <string>
#include <utility>

#include "text/base64.h"
#include "text/json_access.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

using simdjson::dom::element;

constexpr int kMaxDepth = 8;

std::unexpected<Error> Wrong(std::string_view part, std::string_view type, std::string_view what) {
  return Err(Code::kCorrupt,
             "tokenizer.json: {} of type '{}': {}; the file is damaged or of a newer format: "
             "download it again",
             part, type.substr(0, 100), what);
}

std::unexpected<Error> Unknown(std::string_view part, std::string_view type,
                               std::string_view known) {
  return Err(Code::kUnsupported,
             "tokenizer.json: {} of type '{}' is not supported; supported are {}", part,
             type.substr(0, 100), known);
}

bool Flag(const element& json, std::string_view key, bool missing) {
  return access::Bool(json, key).value_or(missing);
}

std::string String(const element& json, std::string_view key, std::string_view missing = {}) {
  return std::string(access::Text(json, key).value_or(missing));
}

uint32_t Number(const element& json, std::string_view key) {
  const uint64_t value = access::Uint(json, key).value_or(0);
  return static_cast<uint32_t>(std::min<uint64_t>(value, std::numeric_limits<uint32_t>::max()));
}

// {"String": "..."} or {"Regex": "..."}; a bare string is an old form of the former.
struct Pattern {
  bool regex = false;
  std::string text;
};
std::optional<Pattern> ReadPattern(const element& json) {
  if (const auto text = access::Text(json, "pattern")) return Pattern{false, std::string(*text)};
  const auto object = access::Member(json, "pattern");
  if (!object) return std::nullopt;
  if (const auto text = access::Text(*object, "String")) return Pattern{false, std::string(*text)};
  if (const auto text = access::Text(*object, "Regex")) return Pattern{true, std::string(*text)};
  return std::nullopt;
}

// Runs read(step) over the parts of a sequence, or over the one part that `json` is.
template <class Read>
Status ForEachPart(const element& json, std::string_view list, std::string_view part, int depth,
                   Read read) {
  if (json.is_null()) return {};
  const auto type = access::Text(json, "type");
  if (!type) return Wrong(part, "", "it has no type");
  if (*type != "Sequence") return read(json, *type);
  simdjson::dom::array parts;
  if (json[list].get(parts)) return Wrong(part, *type, "it has no list of parts");
  if (depth >= kMaxDepth) return Wrong(part, *type, "sequences are nested too deep");
  for (const element each : parts) TRY(ForEachPart(each, list, part, depth + 1, read));
  return {};
}

Status ReadCharsmap(const element& json, PipelineStep<NormalizerKind>& step) {
  const auto encoded = access::Text(json, "precompiled_charsmap");
  const auto bytes = encoded ? DecodeBase64(*encoded) : std::nullopt;
  if (!bytes) return Wrong("normalizer", "Precompiled", "precompiled_charsmap is no base64 text");
  step.kind = NormalizerKind::kCharsmapHf;
  step.text = *bytes;
  return {};
}

uint32_t BertFlags(const element& json) {
  const bool lowercase = Flag(json, "lowercase", true);
  const bool strip = Flag(json, "strip_accents", lowercase);
  return (Flag(json, "clean_text", true) ? kBertCleanText : 0) |
         (Flag(json, "handle_chinese_chars", true) ? kBertChineseChars : 0) |
         (strip ? kBertStripAccents : 0) | (lowercase ? kBertLowercase : 0);
}

Status ReadNormalizer(const element& json, std::string_view type, TokenizerSpec& spec) {
  static constexpr std::pair<std::string_view, NormalizerKind> kPlain[] = {
      {"NFC", NormalizerKind::kNfc},
      {"NFD", NormalizerKind::kNfd},
      {"NFKC", NormalizerKind::kNfkc},
      {"NFKD", NormalizerKind::kNfkd},
      {"Lowercase", NormalizerKind::kLowercase},
      {"StripAccents", NormalizerKind::kStripAccents},
      {"Nmt", NormalizerKind::kNmt},
      {"ByteLevel", NormalizerKind::kByteLevel},
  };
  PipelineStep<NormalizerKind> step;
  for (const auto& [name, kind] : kPlain) {
    if (name == type) step.kind = kind;
  }
  if (type == "Strip") {
    step.kind = NormalizerKind::kStrip;
    step.flags =
        (Flag(json, "strip_left", true) ? 1U : 0U) | (Flag(json, "strip_right", true) ? 2U : 0U);
  } else if (type == "Replace") {
    auto pattern = ReadPattern(json);
    if (!pattern) return Wrong("normalizer", type, "it has no pattern");
    step.kind = pattern->regex ? NormalizerKind::kReplaceRegex : NormalizerKind::kReplaceText;
    step.text = std::move(pattern->text);
    step.content = String(json, "content");
  } else if (type == "Prepend") {
    step.kind = NormalizerKind::kPrepend;
    step.content = String(json, "prepend");
  } else if (type == "BertNormalizer") {
    step.kind = NormalizerKind::kBert;
    step.flags = BertFlags(json);
  } else if (type == "Precompiled") {
    // Without a map it does nothing.
    if (access::Text(json, "precompiled_charsmap").value_or("").empty()) return {};
    TRY(ReadCharsmap(json, step));
  }
  if (step.kind == NormalizerKind{}) {
    return Unknown("normalizer", type,
                   "BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, "
                   "Prepend, Replace, Sequence, Strip and StripAccents");
  }
  spec.normalizers.push_back(std::move(step));
  return {};
}

std::optional<uint32_t> Behavior(std::string_view name) {
  static constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  };
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return static_cast<uint32_t>(behavior);
  }
  return std::nullopt;
}

// The old add_prefix_space means "always".
uint32_t MetaspaceFlags(const element& json) {
  std::string_view scheme = Flag(json, "add_prefix_space", true) ? "always" : "never";
  if (const auto given = access::Text(json, "prepend_scheme")) scheme = *given;
  return scheme == "always" ? kMetaspaceAlways : scheme == "first" ? kMetaspaceFirst : 0;
}

Status ReadSplit(const element& json, std::string_view type, PipelineStep<PreTokenizerKind>& step) {
  auto pattern = ReadPattern(json);
  if (!pattern) return Wrong("pre_tokenizer", type, "it has no pattern");
  const auto behavior = Behavior(access::Text(json, "behavior").value_or(""));
  if (!behavior) return Wrong("pre_tokenizer", type, "its behavior is unknown");
  step.kind = pattern->regex ? PreTokenizerKind::kSplitRegex : PreTokenizerKind::kSplitText;
  step.text = std::move(pattern->text);
  step.number = *behavior;
  step.flags = Flag(json, "invert", false) ? kSplitInvert : 0;
  return {};
}

Status ReadPreTokenizer(const element& json, std::string_view type, TokenizerSpec& spec) {
  PipelineStep<PreTokenizerKind> step;
  if (type == "Split") {
    TRY(ReadSplit(json, type, step));
  } else if (type == "ByteLevel") {
    step.kind = PreTokenizerKind::kByteLevel;
    step.flags = (Flag(json, "add_prefix_space", true) ? kByteLevelPrefixSpace : 0) |
                 (Flag(json, "use_regex", true) ? kByteLevelRegex : 0);
  } else if (type == "Metaspace") {
    step.kind = PreTokenizerKind::kMetaspace;
    step.text = String(json, "replacement", "\u2581");
    step.flags = MetaspaceFlags(json) | (Flag(json, "split", true) ? kMetaspaceSplit : 0);
  } else if (type == "BertPreTokenizer") {
    step.kind = PreTokenizerKind::kBert;
  } else if (type == "Whitespace") {
    step.kind = PreTokenizerKind::kWhitespace;
  } else if (type == "WhitespaceSplit") {
    step.kind = PreTokenizerKind::kWhitespaceSplit;
  } else if (type == "Punctuation") {
    step.kind = PreTokenizerKind::kPunctuation;
    const auto behavior = Behavior(access::Text(json, "behavior").value_or("Isolated"));
    if (!behavior) return Wrong("pre_tokenizer", type, "its behavior is unknown");
    step.number = *behavior;
  } else if (type == "Digits") {
    step.kind = PreTokenizerKind::kDigits;
    step.flags = Flag(json, "individual_digits", false) ? 1 : 0;
  } else if (type == "CharDelimiterSplit") {
    step.kind = PreTokenizerKind::kSplitText;
    step.text = String(json, "delimiter");
    step.number = static_cast<uint32_t>(SplitBehavior::kRemoved);
  } else if (type == "FixedLength") {
    step.kind = PreTokenizerKind::kFixedLength;
    step.number = Number(json, "length");
  } else {
    return Unknown("pre_tokenizer", type,
                   "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, "
                   "Metaspace, Punctuation, Sequence, Split, Whitespace and WhitespaceSplit");
  }
  spec.pre_tokenizers.push_back(std::move(step));
  return {};
}

// Bytes stay bytes where nothing looks at their alphabet after them.
void ChooseByteLevel(TokenizerSpec& spec) {
  size_t last = 0;
  bool maps = false;
  for (size_t i = 0; i < spec.pre_tokenizers.size(); ++i) {
    if (spec.pre_tokenizers[i].kind != PreTokenizerKind::kByteLevel) continue;
    if (maps) spec.pre_tokenizers[last].flags |= kByteLevelMap;
    last = i;
    maps = true;
  }
  const bool at_end = maps && last + 1 == spec.pre_tokenizers.size();
  // Only BPE knows words of bytes; a second mapping sees the alphabet of the first.
  const bool twice =
      at_end && last > 0 &&
      std::any_of(spec.pre_tokenizers.begin(), spec.pre_tokenizers.end() - 1, [](const auto& s) {
        return (s.flags & kByteLevelMap) != 0 && s.kind == PreTokenizerKind::kByteLevel;
      });
  if (!maps) return;
  if (at_end && !twice && spec.model.kind == ModelKind::kBpe &&
      spec.model.continuing_prefix.empty() && spec.model.word_suffix.empty()) {
    spec.model.flags |= TokenModel::kByteLevel;
  } else {
    spec.pre_tokenizers[last].flags |= kByteLevelMap;
  }
}

// [text, id] of BertProcessing and RobertaProcessing.
Status ReadNamedId(const element& json, std::string_view type, std::string_view key,
                   std::vector<int32_t>& out) {
  uint64_t id = 0;
  if (json[key].at(1).get(id) || id >= kMaxTokens) {
    return Wrong("post_processor", type, "a token without its id");
  }
  out = {static_cast<int32_t>(id)};
  return {};
}

Status ReadTemplate(const element& json, std::string_view type, std::vector<int32_t>& before,
                    std::vector<int32_t>& after) {
  simdjson::dom::array items;
  if (json["single"].get(items)) return Wrong("post_processor", type, "it has no template");
  bool past_text = false;
  for (const element item : items) {
    if (access::Member(item, "Sequence")) {
      past_text = true;
      continue;
    }
    const auto special = access::Member(item, "SpecialToken");
    const auto name = special ? access::Text(*special, "id") : std::nullopt;
    if (!name) return Wrong("post_processor", type, "a part of the template is unknown");
    simdjson::dom::object tokens;
    simdjson::dom::array ids;
    if (json["special_tokens"].get(tokens) || tokens[*name]["ids"].get(ids)) {
      return Wrong("post_processor", type, "a token of the template has no ids");
    }
    for (const element each : ids) {
      uint64_t id = 0;
      if (each.get(id) || id >= kMaxTokens) {
        return Wrong("post_processor", type, "a token's id is no number");
      }
      (past_text ? after : before).push_back(static_cast<int32_t>(id));
    }
  }
  if (!past_text) return Wrong("post_processor", type, "the template lacks the text");
  return {};
}

Status ReadPost(const element& json, std::string_view type, TokenizerSpec& spec) {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  if (type == "TemplateProcessing") {
    TRY(ReadTemplate(json, type, before, after));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    TRY(ReadNamedId(json, type, "cls", before));
    TRY(ReadNamedId(json, type, "sep", after));
  } else if (type != "ByteLevel") {  // that one changes offsets only
    return Unknown("post_processor", type,
                   "BertProcessing, ByteLevel, RobertaProcessing, Sequence and "
                   "TemplateProcessing");
  }
  spec.prefix.insert(spec.prefix.begin(), before.begin(), before.end());
  spec.suffix.insert(spec.suffix.end(), after.begin(), after.end());
  return {};
}

Status ReadDecoder(const element& json, std::string_view type, TokenizerSpec& spec) {
  PipelineStep<DecoderKind> step;
  if (type == "ByteLevel") {
    step.kind = DecoderKind::kByteLevel;
  } else if (type == "Replace") {
    auto pattern = ReadPattern(json);
    if (!pattern) return Wrong("decoder", type, "it has no pattern");
    step.kind = pattern->regex ? DecoderKind::kReplaceRegex : DecoderKind::kReplaceText;
    step.text = std::move(pattern->text);
    step.content = String(json, "content");
  } else if (type == "ByteFallback") {
    step.kind = DecoderKind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecoderKind::kFuse;
  } else if (type == "Strip") {
    step.kind = DecoderKind::kStrip;
    step.text = String(json, "content");
    step.flags = Number(json, "start");
    step.number = Number(json, "stop");
  } else if (type == "Metaspace") {
    step.kind = DecoderKind::kMetaspace;
    step.text = String(json, "replacement", "\u2581");
    step.flags = MetaspaceFlags(json) == 0 ? 0 : 1;
  } else if (type == "WordPiece") {
    step.kind = DecoderKind::kWordPiece;
    step.text = String(json, "prefix", "##");
    step.flags = Flag(json, "cleanup", true) ? 1 : 0;
  } else if (type == "BPEDecoder") {
    step.kind = DecoderKind::kBpe;
    step.text = String(json, "suffix", "</w>");
  } else if (type == "CTC") {
    step.kind = DecoderKind::kCtc;
    step.text = String(json, "pad_token", "<pad>");
    step.content = String(json, "word_delimiter_token", "|");
    step.flags = Flag(json, "cleanup", true) ? 1 : 0;
  } else {
    return Unknown("decoder", type,
                   "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, "
                   "Strip and WordPiece");
  }
  spec.decoders.push_back(std::move(step));
  return {};
}

}  // namespace

Status ReadNormalizers(const element& json, TokenizerSpec& spec) {
  return ForEachPart(
      json, "normalizers", "normalizer", 0,
      [&](const element& part, std::string_view type) { return ReadNormalizer(part, type, spec); });
}

Status ReadPreTokenizers(const element& json, TokenizerSpec& spec) {
  TRY(ForEachPart(json, "pretokenizers", "pre_tokenizer", 0,
                  [&](const element& part, std::string_view type) {
                    return ReadPreTokenizer(part, type, spec);
                  }));
  ChooseByteLevel(spec);
  return {};
}

Status ReadPostProcessor(const element& json, TokenizerSpec& spec) {
  return ForEachPart(
      json, "processors", "post_processor", 0,
      [&](const element& part, std::string_view type) { return ReadPost(part, type, spec); });
}

Status ReadDecoders(const element& json, TokenizerSpec& spec) {
  if (json.is_null()) {
    spec.decoders.emplace_back().kind = DecoderKind::kJoinSpaces;
    return {};
  }
  return ForEachPart(
      json, "decoders", "decoder", 0,
      [&](const element& part, std::string_view type) { return ReadDecoder(part, type, spec); });
}

}  // namespace tandem::text
