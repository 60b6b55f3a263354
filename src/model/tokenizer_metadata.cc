#include "model/tokenizer_metadata.h"

#include <limits>
#include <string_view>

#include "model/gguf_cursor.h"

namespace tandem::model {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i);
    const size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size == 0 || lead > 0xF4 || size > text.size() - i) return false;
    for (size_t j = 1; j < size; ++j)
      if ((byte(i + j) & 0xC0) != 0x80) return false;
    if (lead == 0xE0 && byte(i + 1) < 0xA0) return false;
    if (lead == 0xED && byte(i + 1) > 0x9F) return false;
    if (lead == 0xF0 && byte(i + 1) < 0x90) return false;
    if (lead == 0xF4 && byte(i + 1) > 0x8F) return false;
    i += size;
  }
  return true;
}

class MetadataReader {
 public:
  explicit MetadataReader(const GgufView& file) : file_(file) {}

  Result<TokenizerMetadata> Read() {
    TRY_ASSIGN(data_.model, Text("tokenizer.ggml.model", false));
    TRY_ASSIGN(data_.pre, Text("tokenizer.ggml.pre", true));
    TRY_ASSIGN(data_.tokens, Texts("tokenizer.ggml.tokens"));
    if (data_.tokens.empty())
      return Err(Code::kCorrupt, "{}: key 'tokenizer.ggml.tokens' is missing or empty",
                 file_.label());
    if (data_.tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
      return Err(Code::kCorrupt, "{}: key 'tokenizer.ggml.tokens' has {} entries", file_.label(),
                 data_.tokens.size());
    TRY_ASSIGN(data_.merges, Texts("tokenizer.ggml.merges"));
    TRY_ASSIGN(data_.name, Text("general.name", true));
    TRY_ASSIGN(data_.architecture, Text("general.architecture", true));
    TRY(ReadTypesAndScores());
    TRY(ReadCharsmap());
    TRY(ReadIds());
    TRY(ReadFlags());
    TRY(ReadTemplates());
    return std::move(data_);
  }

 private:
  Result<std::string> Text(std::string_view key, bool optional) {
    TRY_ASSIGN(const std::string_view text, optional ? file_.String(key, "") : file_.String(key));
    if (!IsUtf8(text))
      return Err(Code::kCorrupt, "{}: key '{}' is not UTF-8", file_.label(), Printable(key));
    return std::string(text);
  }

  Result<std::vector<std::string>> Texts(std::string_view key) {
    TRY_ASSIGN(const std::vector<std::string_view> views, file_.Strings(key));
    std::vector<std::string> texts;
    texts.reserve(views.size());
    for (const std::string_view view : views) {
      if (!IsUtf8(view))
        return Err(Code::kCorrupt, "{}: entry {} of key '{}' is not UTF-8", file_.label(),
                   texts.size(), key);
      texts.emplace_back(view);
    }
    return texts;
  }

  Status CheckLength(std::string_view key, size_t size) {
    if (size != 0 && size != data_.tokens.size())
      return Err(Code::kCorrupt, "{}: key '{}' has {} entries, the vocabulary has {}",
                 file_.label(), key, size, data_.tokens.size());
    return {};
  }

  Status ReadTypesAndScores() {
    TRY_ASSIGN(const std::vector<int64_t> types, file_.Ints("tokenizer.ggml.token_type"));
    TRY(CheckLength("tokenizer.ggml.token_type", types.size()));
    data_.token_types.reserve(types.size());
    for (const int64_t type : types) {
      if (type < 0 || type > 6)
        return Err(Code::kCorrupt, "{}: entry {} of key 'tokenizer.ggml.token_type' is {}",
                   file_.label(), data_.token_types.size(), type);
      data_.token_types.push_back(static_cast<int32_t>(type));
    }
    TRY_ASSIGN(data_.scores, file_.Floats("tokenizer.ggml.scores"));
    return CheckLength("tokenizer.ggml.scores", data_.scores.size());
  }

  Status ReadCharsmap() {
    TRY_ASSIGN(const std::vector<int64_t> bytes, file_.Ints("tokenizer.ggml.precompiled_charsmap"));
    data_.charsmap.reserve(bytes.size());
    for (const int64_t byte : bytes) data_.charsmap.push_back(static_cast<char>(byte));
    return {};
  }

  Status ReadId(std::string_view name, std::optional<int32_t>& id) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (file_.Find(key) == nullptr) return {};
    TRY_ASSIGN(const int64_t value, file_.Int(key));
    // Converters write -1 or 2^32 - 1 for "none".
    if (value == -1 || value == std::numeric_limits<uint32_t>::max()) return {};
    if (value < 0 || value >= static_cast<int64_t>(data_.tokens.size()))
      return Err(Code::kCorrupt, "{}: key '{}' is {}, the vocabulary has {} tokens", file_.label(),
                 key, value, data_.tokens.size());
    id = static_cast<int32_t>(value);
    return {};
  }

  Status ReadIds() {
    TRY(ReadId("bos", data_.bos));
    TRY(ReadId("eos", data_.eos));
    TRY(ReadId("eot", data_.eot));
    TRY(ReadId("eom", data_.eom));
    TRY(ReadId("unknown", data_.unknown));
    TRY(ReadId("padding", data_.padding));
    TRY(ReadId("seperator", data_.separator));  // the format spells it so
    return ReadId("mask", data_.mask);
  }

  Status ReadFlag(std::string_view key, std::optional<bool>& flag) {
    if (file_.Find(key) == nullptr) return {};
    TRY_ASSIGN(flag, file_.Bool(key));
    return {};
  }

  Status ReadFlags() {
    TRY(ReadFlag("tokenizer.ggml.add_bos_token", data_.add_bos));
    TRY(ReadFlag("tokenizer.ggml.add_eos_token", data_.add_eos));
    TRY(ReadFlag("tokenizer.ggml.add_space_prefix", data_.add_space_prefix));
    TRY(ReadFlag("tokenizer.ggml.remove_extra_whitespaces", data_.remove_extra_whitespaces));
    TRY(ReadFlag("tokenizer.ggml.normalizer.lowercase", data_.lowercase));
    return ReadFlag("tokenizer.ggml.normalizer.strip_accents", data_.strip_accents);
  }

  Status ReadTemplates() {
    TRY_ASSIGN(data_.chat_template, Text(kTemplateKey, true));
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(kTemplateKey) || value.type != GgufType::kString) continue;
      const std::string_view rest = key.substr(kTemplateKey.size());
      if (rest.size() < 2 || rest.front() != '.' || !IsUtf8(rest)) continue;
      TRY_ASSIGN(std::string text, Text(key, false));
      data_.named_chat_templates.emplace(rest.substr(1), std::move(text));
    }
    return {};
  }

  const GgufView& file_;
  TokenizerMetadata data_;
};

}  // namespace

Result<TokenizerMetadata> ReadTokenizerMetadata(const GgufView& file) {
  return MetadataReader(file).Read();
}

}  // namespace tandem::model
