// Patterns as llama.cpp publishes them; a pattern that it ends without "|\\s+" leaves the same
// pieces.
#include "text/gguf_pre.h"

#include <array>
#include <initializer_list>
#include <string>

namespace tandem::text {
namespace {

// clang-format off
constexpr std::string_view kNumber =
    R"re(\p{N})re";
constexpr std::string_view kNumbersTo3 =
    R"re(\p{N}{1,3})re";
constexpr std::string_view kLines =
    R"re([^\n]+|[\n]+)re";
constexpr std::string_view kHanAndKana =
    R"re([一-龥぀-ゟ゠-ヿ]+)re";
constexpr std::string_view kGpt2 =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kLlama3 =
    R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\)re"
    R"re(p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen2 =
    R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\)re"
    R"re(p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

struct Row {
  std::array<std::string_view, 6> patterns;  // the rest are empty
  std::array<std::string_view, 24> names;
};

constexpr Row kRows[] = {
      {{R"re([\p{P}\$\+<=>\^~\|]+)re",
        kGpt2,
        R"re(\p{N}+)re",
        R"re([0-9][0-9][0-9])re"},
       {"default"}},
      {{kNumbersTo3,
        R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\)re"
        R"re(p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"minicpm5"}},
      {{kLlama3},
       {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"}},
      {{R"re([\r\n])re",
        R"re(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-)re"
        R"re(ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮ)re"
        R"re(ⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)re",
        R"re(\s?[!-/:-~！-／：-～‘-‟　-。]+)re",
        R"re(\s+\z)re",
        R"re([一-龥ࠀ-一가-퟿]+)re",
        R"re(\p{N}+)re"},
       {"deepseek-llm"}},
      {{R"re([\r\n])re",
        R"re(\s?\p{L}+)re",
        R"re(\s?\p{P}+)re",
        R"re([一-龥ࠀ-一가-퟿]+)re",
        kNumber},
       {"deepseek-coder"}},
      {{kNumbersTo3,
        kHanAndKana,
        R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)re"
        R"re(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"}},
      {{kNumbersTo3,
        kHanAndKana,
        R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)re"
        R"re(| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re",
        kNumber},
       {"spark2_5"}},
      {{R"re([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)re",
        R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS])re"
        R"re(|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p)re"
        R"re({Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|)re"
        R"re('[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"youtu"}},
      {{R"re([\p{P}\$\+<=>\^~\|`]+)re",
        kGpt2,
        R"re([0-9][0-9][0-9])re"},
       {"falcon"}},
      {{kGpt2},
       {"mpt", "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de",
        "a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "olmo",
        "jais", "exaone4", "trillion", "granite-docling", "gpt2"}},
      {{kNumber,
        kGpt2},
       {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
        "mellum2"}},
      {{R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\)re"
        R"re(p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?)re"
        R"re(!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)re"
        R"re({1})re"},
       {"jais-2"}},
      {{kLines},
       {"gemma4", "granite-embed-multi-311m", "sarvam-moe"}},
      {{kQwen2},
       {"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan",
        "grok-2", "solar-open"}},
      {{R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p)re"
        R"re({M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"qwen35"}},
      {{R"re( ?[^(\s|.,!?…。，、।۔،)]+)re"},
       {"poro-chat", "bloom", "gpt3-finnish"}},
      {{R"re( ?[^(\s|.,!?…。，、।۔،)]+)re",
        kNumber},
       {"viking"}},
      {{R"re([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|[^\r\n\p{L}\p{N}]?((?)re"
        R"re(=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n])re"
        R"re(+|\s+(?!\S)|\s+)re"},
       {"tekken"}},
      {{R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L})re"
        R"re(\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re"},
       {"exaone-moe"}},
      {{R"re(<sentinel:[0-9]+>)re",
        R"re((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)re",
        R"re(([\t\n]|    |  ))re",
        kNumber,
        R"re([\p{P}!-/:-@\[-`{-~])re",
        kGpt2},
       {"chameleon"}},
      {{R"re([^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+(?:'[sS]|'[tT]|'[rR][e)re"
        R"re(E]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p)re"
        R"re({L}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3})re"
        R"re(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}},
      {{R"re([^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))*((?=[\p{L}\p{M}])([^A-Z]))+(?:'[sS]|'[t)re"
        R"re(T]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([)re"
        R"re(^a-z]))+((?=[\p{L}\p{M}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL)re"
        R"re(]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"granite-embed-multi-97m"}},
      {{R"re(\d{1,3}(?=(?:\d{3})*\b))re",
        R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS])re"
        R"re(|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p)re"
        R"re({Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|)re"
        R"re('[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"tiny_aya", "cohere2moe"}},
      {{R"re(\p{N}+)re",
        R"re((?=(\d{3})+(?!\d)))re"},
       {"superbpe"}},
      {{R"re('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L)re"
        R"re(}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re"},
       {"bailingmoe", "bailingmoe2", "llada-moe"}},
      {{R"re((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\)re"
        R"re(p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"seed-coder"}},
      {{R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       {"ufakzeka"}},
      {{kLines,
        kQwen2},
       {"laguna"}},
  };
// clang-format on

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names) {
    if (each == name) return true;
  }
  return false;
}

}  // namespace

Result<GgufPre> FindGgufPre(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const Row& row : kRows) {
    for (const std::string_view each : row.names) {
      if (each.empty()) break;
      if (each != name) {
        if (!known.empty()) known += ", ";
        known += each;
        continue;
      }
      GgufPre pre;
      for (const std::string_view pattern : row.patterns) {
        if (!pattern.empty()) pre.patterns.push_back(pattern);
      }
      pre.ignore_merges =
          IsOneOf(name, {"falcon-h1", "falcon3", "glm4", "glm5", "granite-embed-multi-97m",
                         "jina-v5-nano", "lfm2", "llama-bpe", "llama-v3", "llama3", "midm-2.0",
                         "minicpm5", "pixtral", "tekken", "youtu"});
      pre.add_bos =
          IsOneOf(name, {"chameleon", "falcon-h1", "falcon3", "jina-v5-nano", "lfm2", "llama-bpe",
                         "llama-v3", "llama3", "midm-2.0", "pixtral", "tekken"});
      pre.clean_spaces = IsOneOf(
          name,
          {"a.x-4.0",      "bloom",      "chatglm-bpe", "codeshell",    "dbrx",
           "default",      "exaone",     "exaone-moe",  "exaone4",      "falcon",
           "falcon-h1",    "falcon3",    "gemma4",      "gigachat",     "glm4",
           "glm5",         "gpt-2",      "gpt2",        "gpt3-finnish", "granite-embed-multi-311m",
           "jais",         "jais-2",     "jina-de",     "jina-es",      "jina-v1-en",
           "jina-v2-code", "jina-v2-de", "jina-v2-es",  "jina-v5-nano", "lfm2",
           "llama-bpe",    "llama-v3",   "llama3",      "megrez",       "mellum",
           "mellum2",      "midm-2.0",   "minerva-7b",  "minicpm5",     "modern-bert",
           "mpt",          "olmo",       "phi-2",       "pixtral",      "refact",
           "roberta-bpe",  "smaug-bpe",  "stablelm2",   "starcoder"});
      pre.plain_text = IsOneOf(name, {"gemma4", "granite-embed-multi-311m", "sarvam-moe"});
      return pre;
    }
  }
  return Err(Code::kUnsupported,
             "tokenizer.ggml.pre: pre-tokeniser '{}' is not supported; supported are {}", name,
             known);
}

}  // namespace tandem::text
