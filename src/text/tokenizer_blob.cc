// The serialised form of a TokenizerSpec.
#include <bit>

#include "text/tokenizer_spec.h"

namespace tandem::text {
namespace {

// Magic, u32 version, then the fields in the order of the struct. Integers are little-endian u32; a
// string is its length and its bytes; a list is its count and its elements; an absent id is
// 0xFFFFFFFF; a kind, a token type or a flag of the spec is one byte.
constexpr std::string_view kMagic = "TDMTOKEN";
constexpr uint32_t kVersion = 2;
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
  void Ids(const std::vector<int32_t>& ids) {
    U32(ids.size());
    for (const int32_t id : ids) U32(static_cast<uint32_t>(id));
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

  void Fail() { ok_ = false; }
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
  std::vector<int32_t> Ids(size_t limit) {
    std::vector<int32_t> ids(Count(limit, 4));
    for (int32_t& id : ids) id = static_cast<int32_t>(U32());
    return ids;
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

template <class Kind>
void WriteSteps(const std::vector<PipelineStep<Kind>>& steps, Writer& writer) {
  writer.U32(steps.size());
  for (const PipelineStep<Kind>& step : steps) {
    writer.Byte(static_cast<uint8_t>(step.kind));
    writer.U32(step.flags);
    writer.U32(step.number);
    writer.Text(step.text);
    writer.Text(step.content);
  }
}

template <class Kind>
std::vector<PipelineStep<Kind>> ReadSteps(Reader& reader) {
  std::vector<PipelineStep<Kind>> steps(reader.Count(kMaxSteps, 17));
  for (PipelineStep<Kind>& step : steps) {
    step.kind = static_cast<Kind>(reader.Byte());
    step.flags = reader.U32();
    step.number = reader.U32();
    step.text = reader.Text(kMaxStepBytes);
    step.content = reader.Text(kMaxContentBytes);
  }
  return steps;
}

void WriteVocabulary(const TokenizerSpec& spec, Writer& writer) {
  writer.Texts(spec.tokens);
  writer.U32(spec.token_types.size());
  for (const TokenType type : spec.token_types) writer.Byte(static_cast<uint8_t>(type));
  writer.U32(spec.scores.size());
  for (const float score : spec.scores) writer.U32(std::bit_cast<uint32_t>(score));
  writer.U32(spec.merges.size());
  for (const MergeRule& rule : spec.merges) {
    writer.U32(static_cast<uint32_t>(rule.left));
    writer.U32(static_cast<uint32_t>(rule.right));
    writer.U32(static_cast<uint32_t>(rule.merged));
  }
  writer.U32(spec.added.size());
  for (const AddedToken& added : spec.added) {
    writer.U32(static_cast<uint32_t>(added.id));
    writer.U32(added.flags);
  }
  writer.Byte(spec.longest_added_first ? 1 : 0);
}

void ReadVocabulary(Reader& reader, TokenizerSpec& spec) {
  spec.tokens = reader.Texts(kMaxTokens, kMaxTokenBytes);
  spec.token_types.resize(reader.Count(kMaxTokens, 1));
  for (TokenType& type : spec.token_types) type = static_cast<TokenType>(reader.Byte());
  spec.scores.resize(reader.Count(kMaxTokens, 4));
  for (float& score : spec.scores) score = std::bit_cast<float>(reader.U32());
  spec.merges.resize(reader.Count(kMaxMerges, 12));
  for (MergeRule& rule : spec.merges) {
    rule.left = static_cast<int32_t>(reader.U32());
    rule.right = static_cast<int32_t>(reader.U32());
    rule.merged = static_cast<int32_t>(reader.U32());
  }
  spec.added.resize(reader.Count(kMaxTokens, 8));
  for (AddedToken& added : spec.added) {
    added.id = static_cast<int32_t>(reader.U32());
    added.flags = reader.U32();
  }
  const uint8_t longest = reader.Byte();
  if (longest > 1) reader.Fail();
  spec.longest_added_first = longest == 1;
}

void WriteModel(const TokenModel& model, Writer& writer) {
  writer.Byte(static_cast<uint8_t>(model.kind));
  writer.U32(model.flags);
  writer.Text(model.continuing_prefix);
  writer.Text(model.word_suffix);
  writer.U32(model.max_word_chars);
  writer.Id(model.unk_id);
}

void ReadModel(Reader& reader, TokenModel& model) {
  model.kind = static_cast<ModelKind>(reader.Byte());
  model.flags = reader.U32();
  model.continuing_prefix = reader.Text(kMaxContentBytes);
  model.word_suffix = reader.Text(kMaxContentBytes);
  model.max_word_chars = reader.U32();
  model.unk_id = reader.Id();
}

}  // namespace

Result<std::string> Serialize(const TokenizerSpec& spec) {
  TRY(Validate(spec));
  Writer writer;
  writer.Raw(kMagic);
  writer.U32(kVersion);
  WriteVocabulary(spec, writer);
  WriteModel(spec.model, writer);
  WriteSteps(spec.normalizers, writer);
  WriteSteps(spec.pre_tokenizers, writer);
  WriteSteps(spec.decoders, writer);
  writer.Ids(spec.prefix);
  writer.Ids(spec.suffix);
  for (const auto* id : {&spec.bos_id, &spec.eos_id, &spec.eot_id, &spec.unk_id, &spec.pad_id}) {
    writer.Id(*id);
  }
  writer.Text(spec.chat_template);
  writer.U32(spec.named_templates.size());
  for (const NamedTemplate& named : spec.named_templates) {
    writer.Text(named.name);
    writer.Text(named.text);
  }
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
  ReadVocabulary(reader, spec);
  ReadModel(reader, spec.model);
  spec.normalizers = ReadSteps<NormalizerKind>(reader);
  spec.pre_tokenizers = ReadSteps<PreTokenizerKind>(reader);
  spec.decoders = ReadSteps<DecoderKind>(reader);
  spec.prefix = reader.Ids(kMaxAround);
  spec.suffix = reader.Ids(kMaxAround);
  for (auto* id : {&spec.bos_id, &spec.eos_id, &spec.eot_id, &spec.unk_id, &spec.pad_id}) {
    *id = reader.Id();
  }
  spec.chat_template = reader.Text(kMaxTemplateBytes);
  spec.named_templates.resize(reader.Count(kMaxNamedTemplates, 8));
  for (NamedTemplate& named : spec.named_templates) {
    named.name = reader.Text(kMaxContentBytes);
    named.text = reader.Text(kMaxTemplateBytes);
  }
  if (!reader.AtEnd()) {
    return Err(Code::kCorrupt, "tokenizer blob: cut short or damaged ({} bytes)", bytes.size());
  }
  if (Status valid = Validate(spec); !valid) {
    return Err(Code::kCorrupt, "tokenizer blob: {}", valid.error().message);
  }
  return spec;
}

}  // namespace tandem::text
