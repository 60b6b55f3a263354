// Everything that turning text into token ids and back needs, as plain data: the steps of a
// Hugging Face tokenizer.json, which also express SentencePiece and GGUF vocabularies. A worker
// fills it from the model's files; a frontend fetches the serialised form by its SHA-256 digest.
//
// Encoding: added tokens are cut out of the text; what lies between goes through the normalisers,
// then (tokens that are looked for in normalised text are cut out here) through the
// pre-tokenisers, and each word that they leave through the model. `prefix` and `suffix` go around
// the whole. Decoding: the tokens' texts go through the decoders, one after the other.
#ifndef TANDEM_TEXT_TOKENIZER_SPEC_H_
#define TANDEM_TEXT_TOKENIZER_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

// Values are those of GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// A token that is found in the text itself rather than made by the model.
struct AddedToken {
  static constexpr uint32_t kSpecial = 1;     // left out by skip_special_tokens
  static constexpr uint32_t kSingleWord = 2;  // not next to a word character
  static constexpr uint32_t kLeftStrip = 4;   // takes the white space before it along
  static constexpr uint32_t kRightStrip = 8;
  static constexpr uint32_t kNormalized = 16;  // looked for after the normalisers
  static constexpr uint32_t kVerbatim = 32;    // with kNormalized: its own text is not normalised
  static constexpr uint32_t kInModel = 64;     // the model's vocabulary has it too

  int32_t id = 0;  // its text is tokens[id]
  uint32_t flags = 0;

  bool Is(uint32_t flag) const { return (flags & flag) != 0; }
  bool operator==(const AddedToken&) const = default;
};

// A pair of tokens that merges; rules stand in the order of their ranks.
struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
  bool operator==(const MergeRule&) const = default;
};

enum class ModelKind : uint8_t { kBpe = 1, kUnigram = 2, kWordPiece = 3, kWordLevel = 4 };

struct TokenModel {
  static constexpr uint32_t kByteLevel = 1;     // words are bytes, tokens the alphabet for them
  static constexpr uint32_t kByteFallback = 2;  // unknown characters become <0xXX> tokens
  static constexpr uint32_t kFuseUnknown = 4;   // one unknown token for a run of them
  static constexpr uint32_t kIgnoreMerges = 8;  // a word that is a token is not split
  // BPE: rules whose result has the same score have the same rank, the leftmost wins
  // (SentencePiece).
  static constexpr uint32_t kRankByScore = 16;
  static constexpr uint32_t kNewlineWords = 32;  // BPE: a word of newlines is not split if a token
  static constexpr uint32_t kMatchUnused = 64;   // unigram: unused tokens are found as well

  ModelKind kind = ModelKind::kBpe;
  uint32_t flags = 0;
  std::string continuing_prefix;  // of tokens that do not begin a word: "##"
  std::string word_suffix;        // of tokens that end a word: "</w>"
  uint32_t max_word_chars = 0;    // WordPiece: longer words are unknown
  std::optional<int32_t> unk_id;  // what the model gives for what it cannot express

  bool Is(uint32_t flag) const { return (flags & flag) != 0; }
  bool operator==(const TokenModel&) const = default;
};

// A step and its parameters; what `flags`, `number`, `text` and `content` mean stands at the kind.
template <class Kind>
struct PipelineStep {
  Kind kind{};
  uint32_t flags = 0;
  uint32_t number = 0;
  std::string text;
  std::string content;
  bool operator==(const PipelineStep&) const = default;
};

enum class NormalizerKind : uint8_t {
  kNfc = 1,
  kNfd = 2,
  kNfkc = 3,
  kNfkd = 4,
  kLowercase = 5,
  kStripAccents = 6,    // drops marks of category Mn
  kStrip = 7,           // white space; flags: 1 left, 2 right
  kReplaceText = 8,     // each `text` becomes `content`
  kReplaceRegex = 9,    // each match of `text` becomes `content`
  kPrepend = 10,        // `content` before a text that is not empty; flags: see kPrepend*
  kBert = 11,           // flags: see kBert*
  kNmt = 12,            // drops controls, turns odd spaces into plain ones
  kCharsmapHf = 13,     // `text`: SentencePiece's compiled map, applied as tokenizers does
  kCharsmapSpm = 14,    // the same, applied as SentencePiece does: the longest match
  kByteLevel = 15,      // writes each byte in GPT-2's alphabet
  kSqueezeSpaces = 16,  // runs of U+0020 become one, none at either end
  kNfdFirst = 17        // of each character's form D only the first
};
// Only at the beginning of the whole text; not before a text of spaces only.
inline constexpr uint32_t kPrependOnlyFirst = 1;
inline constexpr uint32_t kPrependUnlessBlank = 2;
inline constexpr uint32_t kBertCleanText = 1;
inline constexpr uint32_t kBertChineseChars = 2;
inline constexpr uint32_t kBertStripAccents = 4;
inline constexpr uint32_t kBertLowercase = 8;

enum class PreTokenizerKind : uint8_t {
  kSplitText = 1,   // matches of `text`; number: SplitBehavior; flags: kSplitInvert
  kSplitRegex = 2,  // the same for an Oniguruma pattern
  kByteLevel = 3,   // flags: kByteLevel*
  kMetaspace = 4,   // spaces become `text`; flags: kMetaspace*
  kBert = 5,        // white space removed, punctuation isolated
  kWhitespace = 6,  // \w+|[^\w\s]+
  kWhitespaceSplit = 7,
  kPunctuation = 8,  // number: SplitBehavior
  kDigits = 9,       // flags: 1 each alone
  kFixedLength = 10  // number: characters
};
enum class SplitBehavior : uint8_t {
  kRemoved = 0,
  kIsolated = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};
inline constexpr uint32_t kSplitInvert = 1;
inline constexpr uint32_t kByteLevelPrefixSpace = 1;
inline constexpr uint32_t kByteLevelRegex = 2;  // splits as GPT-2 does
inline constexpr uint32_t kByteLevelMap = 4;    // later steps see the alphabet, not the bytes
inline constexpr uint32_t kMetaspaceAlways = 1;
inline constexpr uint32_t kMetaspaceFirst = 2;
inline constexpr uint32_t kMetaspaceSplit = 4;

enum class DecoderKind : uint8_t {
  kByteLevel = 1,     // the alphabet back to bytes, read as UTF-8
  kReplaceText = 2,   // each `text` becomes `content`
  kReplaceRegex = 3,  // each match of `text` becomes `content`
  kByteFallback = 4,  // <0xXX> tokens back to bytes
  kFuse = 5,          // all tokens become one
  kStrip = 6,         // up to flags times `text` at the left, number times at the right
  kMetaspace = 7,     // `text` becomes a space; flags 1: none in the first token
  kWordPiece = 8,     // `text`: the prefix; flags 1: cleans up English punctuation
  kBpe = 9,           // `text`: the suffix becomes a space
  kCtc = 10,          // `text`: padding, `content`: word delimiter; flags 1: cleanup
  kJoinSpaces = 11,   // a space between tokens
  // A GGUF vocabulary: control and user-defined tokens as they are, byte tokens as bytes, others by
  // flags: 1 the byte alphabet, 2 U+2581 becomes a space. flags 4: the first token loses one space.
  // `content`, if any, stands for the unknown token.
  kGguf = 12,
  kCleanSpaces = 13,  // over the whole text: no space before . ? ! , and in contractions
};

struct NamedTemplate {
  std::string name;
  std::string text;
  bool operator==(const NamedTemplate&) const = default;
};

struct TokenizerSpec {
  std::vector<std::string> tokens;     // index = id; empty: an id without a token
  std::vector<TokenType> token_types;  // empty (all normal) or as many as tokens
  std::vector<float> scores;  // empty or as many as tokens; unigram: -infinity is never made
  std::vector<MergeRule> merges;
  TokenModel model;
  std::vector<AddedToken> added;
  // Added tokens are cut out longest first over the whole text (llama.cpp), not leftmost first.
  bool longest_added_first = false;
  std::vector<PipelineStep<NormalizerKind>> normalizers;
  std::vector<PipelineStep<PreTokenizerKind>> pre_tokenizers;
  std::vector<PipelineStep<DecoderKind>> decoders;
  std::vector<int32_t> prefix;  // what add_special_tokens puts before and after
  std::vector<int32_t> suffix;
  // Named tokens, for chat templates and the end of a text.
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> eot_id;
  std::optional<int32_t> unk_id;
  std::optional<int32_t> pad_id;
  std::string chat_template;  // Jinja text; empty where the model has none
  // Further templates by name ("tool_use"), where the model has several.
  std::vector<NamedTemplate> named_templates;

  bool operator==(const TokenizerSpec&) const = default;
};

// Bounds that Serialize and Parse share; a spec outside them is refused.
inline constexpr size_t kMaxTokens = size_t{1} << 21;
inline constexpr size_t kMaxMerges = size_t{1} << 22;
inline constexpr size_t kMaxTokenBytes = size_t{1} << 16;
inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
inline constexpr size_t kMaxNamedTemplates = 16;
inline constexpr size_t kMaxSteps = 64;
inline constexpr size_t kMaxStepBytes = size_t{1} << 22;     // a compiled map is the largest
inline constexpr size_t kMaxContentBytes = size_t{1} << 10;  // of what a step puts into the text
inline constexpr size_t kMaxAround = 64;                     // ids in prefix or suffix
inline constexpr size_t kMaxSpecBytes = size_t{1} << 28;

// kInvalidArgument where the spec breaks a bound or names an id outside the vocabulary.
Status Validate(const TokenizerSpec& spec);

// The same spec always gives the same bytes, so their digest names the tokeniser. Fails where
// Validate does.
Result<std::string> Serialize(const TokenizerSpec& spec);

// Reads what Serialize wrote. The bytes may come from anyone: kCorrupt for damage, kIncompatible
// for another format version.
Result<TokenizerSpec> ParseTokenizerSpec(std::string_view bytes);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_TOKENIZER_SPEC_H_
