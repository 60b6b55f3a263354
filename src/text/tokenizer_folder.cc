#include "text/tokenizer_folder.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "text/sentencepiece.h"
#include "text/tekken.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_json.h"

namespace tandem::text {
namespace {

constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;

// Nothing where there is no such file.
Result<std::optional<std::string>> ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return std::optional<std::string>();
  if (size > kMaxFileBytes) {
    return Err(Code::kTooLarge, "{}: {} bytes; at most {} are supported", path.string(), size,
               kMaxFileBytes);
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return Err(Code::kInvalidArgument, "{}: it cannot be read; check its permissions",
               path.string());
  }
  return std::optional(std::move(bytes));
}

// The reader's error, with the folder in front.
std::unexpected<Error> In(const std::string& folder, const Error& error) {
  return Err(error.code, "{}: {}", folder, error.message);
}

Result<TokenizerSpec> ReadVocabulary(const std::filesystem::path& folder,
                                     const std::string& config) {
  TRY_ASSIGN(const auto json, ReadFile(folder / "tokenizer.json"));
  if (json) return ReadTokenizerJson(*json, config);
  TRY_ASSIGN(const auto model, ReadFile(folder / "tokenizer.model"));
  TRY_ASSIGN(const auto tekken,
             model ? std::optional<std::string>() : ReadFile(folder / "tekken.json"));
  if (!model && !tekken) {
    return Err(Code::kNotFound,
               "no tokenizer: none of tokenizer.json, tokenizer.model and tekken.json is there; "
               "download the model with all its files");
  }
  TRY_ASSIGN(TokenizerSpec spec, model ? ReadSentencePiece(*model) : ReadTekken(*tekken));
  TRY_ASSIGN(const auto added, ReadFile(folder / "added_tokens.json"));
  if (added) TRY(ApplyAddedTokens(*added, spec));
  if (!config.empty()) TRY(ApplyTokenizerConfig(config, spec));
  return spec;
}

}  // namespace

Result<TokenizerSpec> ReadTokenizerFolder(const std::string& folder) {
  const std::filesystem::path path(folder);
  TRY_ASSIGN(const auto config, ReadFile(path / "tokenizer_config.json"));
  auto spec = ReadVocabulary(path, config.value_or(""));
  if (!spec) return In(folder, spec.error());
  TRY_ASSIGN(const auto map, ReadFile(path / "special_tokens_map.json"));
  if (map) {
    if (Status applied = ApplySpecialTokensMap(*map, *spec); !applied) {
      return In(folder, applied.error());
    }
  }
  TRY_ASSIGN(auto chat_template, ReadFile(path / "chat_template.jinja"));
  if (chat_template) spec->chat_template = *std::move(chat_template);
  if (Status valid = Validate(*spec); !valid) return In(folder, valid.error());
  return spec;
}

}  // namespace tandem::text
