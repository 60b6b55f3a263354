#include "text/token_model.h"

namespace tandem::text {

Result<std::unique_ptr<Model>> MakeModel(const TokenizerSpec& spec) {
  switch (spec.model.kind) {
    case ModelKind::kBpe:
      return MakeBpeModel(spec);
    case ModelKind::kUnigram:
      return MakeUnigramModel(spec);
    case ModelKind::kWordPiece:
    case ModelKind::kWordLevel:
      return MakeWordPieceModel(spec);
  }
  return Err(Code::kUnsupported, "tokenizer model: kind {} is not supported",
             static_cast<int>(spec.model.kind));
}

std::vector<bool> TokensOfModel(const TokenizerSpec& spec) {
  std::vector<bool> in(spec.tokens.size(), true);
  for (const AddedToken& added : spec.added) {
    if (!added.Is(AddedToken::kInModel)) in[static_cast<size_t>(added.id)] = false;
  }
  for (size_t id = 0; id < in.size(); ++id) {
    if (spec.tokens[id].empty()) in[id] = false;
  }
  return in;
}

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    if (c >= '0' && c <= '9')
      byte = byte * 16 + (c - '0');
    else if (c >= 'A' && c <= 'F')
      byte = byte * 16 + (c - 'A' + 10);
    else if (c >= 'a' && c <= 'f')
      byte = byte * 16 + (c - 'a' + 10);
    else
      return -1;
  }
  return byte;
}

std::vector<int32_t> ByteTokenIds(const TokenizerSpec& spec) {
  std::vector<int32_t> ids(256, -1);
  const std::vector<bool> in = TokensOfModel(spec);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (!in[id]) continue;
    const std::string& token = spec.tokens[id];
    const int byte = ByteOfToken(token);
    // The vocabulary is asked for upper-case digits.
    const bool lower = token.find_first_of("abcdef", 3) != std::string::npos;
    if (byte >= 0 && !lower) ids[static_cast<size_t>(byte)] = static_cast<int32_t>(id);
  }
  return ids;
}

}  // namespace tandem::text
