#include "text/tokenizer_spec.h"

#include <bit>

namespace tandem::text {
namespace {

// The serialised form: magic, u32 version, then the fields in the order of the struct. Integers are
// little-endian u32; a string is its length and its bytes; a list is its count and its elements; an
// absent id is 0xFFFFFFFF; the three flags are bits 0..2 of one byte.
constexpr std::string_view kMagic = "TDMTOKEN";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kAbsent = 0xFFFFFFFF;

class Writer {
 public:
  void Byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void U32(size_t value) {
    for (int shift = 0; shift < 32; shift += 8) Byte(static_cast<uint8_t>(value >> shift));
  }
  void Text(std::string_view text) {
    U32(text.size());
    out_.append(text);
  }
  void Texts(const std::vector<std::string>& texts) {
    U32(texts.size());
    for (const std::string& text : texts) Text(text);
  }
  void Id(const std::optional<int32_t>& id) { U32(id ? static_cast<uint32_t>(*id) : kAbsent); }
  void Raw(std::string_view bytes) { out_.append(bytes); }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// Reads in order; after the first failure every read gives zero or nothing and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  uint8_t Byte() {
    const std::string_view byte = Raw(1);
    return byte.empty() ? uint8_t{0} : static_cast<uint8_t>(byte[0]);
  }
  uint32_t U32() {
    uint32_t value = 0;
    const std::string_view bytes = Raw(4);
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    }
    return value;
  }
  std::string_view Raw(size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  // A count of elements of at least `element_bytes` each: never more than the bytes that are left
  // can hold, so that a false count cannot make us allocate.
  size_t Count(size_t limit, size_t element_bytes) {
    const size_t count = U32();
    if (count > limit || count > rest_.size() / element_bytes) ok_ = false;
    return ok_ ? count : 0;
  }
  std::string Text(size_t limit) {
    const size_t size = U32();
    if (size > limit) ok_ = false;
    return std::string(Raw(ok_ ? size : 0));
  }
  std::vector<std::string> Texts(size_t limit, size_t text_limit) {
    std::vector<std::string> texts(Count(limit, 4));
    for (std::string& text : texts) text = Text(text_limit);
    return texts;
  }
  std::optional<int32_t> Id() {
    const uint32_t id = U32();
    if (id == kAbsent) return std::nullopt;
    return static_cast<int32_t>(id);
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

Status CheckTexts(std::string_view field, const std::vector<std::string>& texts, size_t limit,
                  size_t text_limit) {
  if (texts.size() > limit) {
    return Err(Code::kInvalidArgument, "tokenizer {}: {} entries; at most {} are supported", field,
               texts.size(), limit);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > text_limit) {
      return Err(Code::kInvalidArgument,
                 "tokenizer {}: entry {} has {} bytes; at most {} are supported", field, i,
                 texts[i].size(), text_limit);
    }
  }
  return {};
}

Status CheckId(std::string_view field, const std::optional<int32_t>& id, size_t vocabulary) {
  if (!id || (*id >= 0 && static_cast<size_t>(*id) < vocabulary)) return {};
  return Err(Code::kInvalidArgument, "tokenizer {}: id {} is outside the vocabulary of {} tokens",
             field, *id, vocabulary);
}

uint8_t Flags(const TokenizerSpec& spec) {
  return static_cast<uint8_t>((spec.add_bos ? 1 : 0) | (spec.add_eos ? 2 : 0) |
                              (spec.add_space_prefix ? 4 : 0));
}

}  // namespace

Status Validate(const TokenizerSpec& spec) {
  TRY(CheckTexts("tokens", spec.tokens, kMaxTokens, kMaxTokenBytes));
  TRY(CheckTexts("merges", spec.merges, kMaxMerges, 2 * kMaxTokenBytes + 1));
  const size_t size = spec.tokens.size();
  if (!spec.token_types.empty() && spec.token_types.size() != size) {
    return Err(Code::kInvalidArgument, "tokenizer token_type: {} entries for {} tokens",
               spec.token_types.size(), size);
  }
  for (size_t i = 0; i < spec.token_types.size(); ++i) {
    const int type = static_cast<int>(spec.token_types[i]);
    if (type < 1 || type > 6) {
      return Err(Code::kInvalidArgument,
                 "tokenizer token_type: token {} has type {}; known are 1 to 6", i, type);
    }
  }
  if (!spec.scores.empty() && spec.scores.size() != size) {
    return Err(Code::kInvalidArgument, "tokenizer scores: {} entries for {} tokens",
               spec.scores.size(), size);
  }
  if (spec.chat_template.size() > kMaxTemplateBytes || spec.model.size() > kMaxTokenBytes ||
      spec.pre_tokenizer.size() > kMaxTokenBytes) {
    return Err(
        Code::kInvalidArgument,
        "tokenizer chat template, model or pre-tokeniser name is too long: {}, {} and {} bytes",
        spec.chat_template.size(), spec.model.size(), spec.pre_tokenizer.size());
  }
  TRY(CheckId("bos id", spec.bos_id, size));
  TRY(CheckId("eos id", spec.eos_id, size));
  TRY(CheckId("eot id", spec.eot_id, size));
  TRY(CheckId("unk id", spec.unk_id, size));
  return CheckId("pad id", spec.pad_id, size);
}

Result<std::string> Serialize(const TokenizerSpec& spec) {
  TRY(Validate(spec));
  Writer writer;
  writer.Raw(kMagic);
  writer.U32(kVersion);
  writer.Text(spec.model);
  writer.Text(spec.pre_tokenizer);
  writer.Texts(spec.tokens);
  writer.U32(spec.token_types.size());
  for (const TokenType type : spec.token_types) writer.Byte(static_cast<uint8_t>(type));
  writer.Texts(spec.merges);
  writer.U32(spec.scores.size());
  for (const float score : spec.scores) writer.U32(std::bit_cast<uint32_t>(score));
  for (const auto* id : {&spec.bos_id, &spec.eos_id, &spec.eot_id, &spec.unk_id, &spec.pad_id}) {
    writer.Id(*id);
  }
  writer.Byte(Flags(spec));
  writer.Text(spec.chat_template);
  std::string bytes = writer.Take();
  if (bytes.size() > kMaxSpecBytes) {
    return Err(Code::kInvalidArgument, "tokenizer: {} bytes in all; at most {} are supported",
               bytes.size(), kMaxSpecBytes);
  }
  return bytes;
}

Result<TokenizerSpec> ParseTokenizerSpec(std::string_view bytes) {
  Reader reader(bytes);
  if (bytes.size() > kMaxSpecBytes || reader.Raw(kMagic.size()) != kMagic) {
    return Err(Code::kCorrupt, "tokenizer blob: not one ({} bytes)", bytes.size());
  }
  if (const uint32_t version = reader.U32(); reader.ok() && version != kVersion) {
    return Err(
        Code::kIncompatible,
        "tokenizer blob: format version {}, this build reads {}; run the same release everywhere",
        version, kVersion);
  }
  TokenizerSpec spec;
  spec.model = reader.Text(kMaxTokenBytes);
  spec.pre_tokenizer = reader.Text(kMaxTokenBytes);
  spec.tokens = reader.Texts(kMaxTokens, kMaxTokenBytes);
  spec.token_types.resize(reader.Count(kMaxTokens, 1));
  for (TokenType& type : spec.token_types) type = static_cast<TokenType>(reader.Byte());
  spec.merges = reader.Texts(kMaxMerges, 2 * kMaxTokenBytes + 1);
  spec.scores.resize(reader.Count(kMaxTokens, 4));
  for (float& score : spec.scores) score = std::bit_cast<float>(reader.U32());
  for (auto* id : {&spec.bos_id, &spec.eos_id, &spec.eot_id, &spec.unk_id, &spec.pad_id}) {
    *id = reader.Id();
  }
  const uint8_t flags = reader.Byte();
  spec.add_bos = (flags & 1) != 0;
  spec.add_eos = (flags & 2) != 0;
  spec.add_space_prefix = (flags & 4) != 0;
  spec.chat_template = reader.Text(kMaxTemplateBytes);
  if (!reader.AtEnd() || flags > 7) {
    return Err(Code::kCorrupt, "tokenizer blob: cut short or damaged ({} bytes)", bytes.size());
  }
  if (Status valid = Validate(spec); !valid) {
    return Err(Code::kCorrupt, "tokenizer blob: {}", valid.error().message);
  }
  return spec;
}

}  // namespace tandem::text
