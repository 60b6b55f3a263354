#include "text/tokenizer_spec.h"

namespace tandem::text {
namespace {

Status TooMany(std::string_view field, size_t count, size_t limit) {
  return Err(Code::kInvalidArgument, "tokenizer {}: {} entries; at most {} are supported", field,
             count, limit);
}

Status CheckText(std::string_view field, std::string_view text, size_t limit) {
  if (text.size() <= limit) return {};
  return Err(Code::kInvalidArgument, "tokenizer {}: {} bytes; at most {} are supported", field,
             text.size(), limit);
}

Status CheckId(std::string_view field, int32_t id, size_t vocabulary) {
  if (id >= 0 && static_cast<size_t>(id) < vocabulary) return {};
  return Err(Code::kInvalidArgument, "tokenizer {}: id {} is outside the vocabulary of {} tokens",
             field, id, vocabulary);
}

Status CheckId(std::string_view field, const std::optional<int32_t>& id, size_t vocabulary) {
  return id ? CheckId(field, *id, vocabulary) : Status();
}

Status CheckTokens(const TokenizerSpec& spec) {
  const size_t size = spec.tokens.size();
  if (size > kMaxTokens) return TooMany("tokens", size, kMaxTokens);
  for (size_t id = 0; id < size; ++id) {
    if (spec.tokens[id].size() > kMaxTokenBytes) {
      return Err(Code::kInvalidArgument,
                 "tokenizer tokens: token {} has {} bytes; at most {} are supported", id,
                 spec.tokens[id].size(), kMaxTokenBytes);
    }
  }
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
  return {};
}

Status CheckRules(const TokenizerSpec& spec) {
  const size_t size = spec.tokens.size();
  if (spec.merges.size() > kMaxMerges) return TooMany("merges", spec.merges.size(), kMaxMerges);
  for (const MergeRule& rule : spec.merges) {
    for (const int32_t id : {rule.left, rule.right, rule.merged}) TRY(CheckId("merges", id, size));
  }
  if (spec.added.size() > size) return TooMany("added tokens", spec.added.size(), size);
  for (const AddedToken& added : spec.added) TRY(CheckId("added tokens", added.id, size));
  for (const auto* around : {&spec.prefix, &spec.suffix}) {
    if (around->size() > kMaxAround) {
      return TooMany("beginning or end tokens", around->size(), kMaxAround);
    }
    for (const int32_t id : *around) TRY(CheckId("beginning or end tokens", id, size));
  }
  return {};
}

template <class Kind>
Status CheckSteps(std::string_view field, const std::vector<PipelineStep<Kind>>& steps, Kind last) {
  if (steps.size() > kMaxSteps) return TooMany(field, steps.size(), kMaxSteps);
  for (const PipelineStep<Kind>& step : steps) {
    if (step.kind < Kind{1} || step.kind > last) {
      return Err(Code::kInvalidArgument, "tokenizer {}: a step of kind {}; known are 1 to {}",
                 field, static_cast<int>(step.kind), static_cast<int>(last));
    }
    TRY(CheckText(field, step.text, kMaxStepBytes));
    TRY(CheckText(field, step.content, kMaxContentBytes));
  }
  return {};
}

Status CheckModel(const TokenizerSpec& spec) {
  const TokenModel& model = spec.model;
  if (model.kind < ModelKind::kBpe || model.kind > ModelKind::kWordLevel) {
    return Err(Code::kInvalidArgument, "tokenizer model: kind {}; known are 1 to {}",
               static_cast<int>(model.kind), static_cast<int>(ModelKind::kWordLevel));
  }
  TRY(CheckText("model prefix", model.continuing_prefix, kMaxContentBytes));
  TRY(CheckText("model suffix", model.word_suffix, kMaxContentBytes));
  TRY(CheckId("model unknown token", model.unk_id, spec.tokens.size()));
  const bool needs_scores = model.kind == ModelKind::kUnigram || model.Is(TokenModel::kRankByScore);
  if (needs_scores && spec.scores.size() != spec.tokens.size()) {
    return Err(Code::kInvalidArgument, "tokenizer scores: {} entries for {} tokens",
               spec.scores.size(), spec.tokens.size());
  }
  return {};
}

}  // namespace

Status Validate(const TokenizerSpec& spec) {
  TRY(CheckTokens(spec));
  TRY(CheckRules(spec));
  TRY(CheckModel(spec));
  TRY(CheckSteps("normalizers", spec.normalizers, NormalizerKind::kNfdFirst));
  TRY(CheckSteps("pre-tokenizers", spec.pre_tokenizers, PreTokenizerKind::kFixedLength));
  TRY(CheckSteps("decoders", spec.decoders, DecoderKind::kCleanSpaces));
  TRY(CheckText("chat template", spec.chat_template, kMaxTemplateBytes));
  if (spec.named_templates.size() > kMaxNamedTemplates) {
    return TooMany("chat templates", spec.named_templates.size(), kMaxNamedTemplates);
  }
  for (const NamedTemplate& named : spec.named_templates) {
    TRY(CheckText("chat template's name", named.name, kMaxContentBytes));
    TRY(CheckText("chat template", named.text, kMaxTemplateBytes));
  }
  const size_t size = spec.tokens.size();
  TRY(CheckId("bos id", spec.bos_id, size));
  TRY(CheckId("eos id", spec.eos_id, size));
  TRY(CheckId("eot id", spec.eot_id, size));
  TRY(CheckId("unk id", spec.unk_id, size));
  return CheckId("pad id", spec.pad_id, size);
}

}  // namespace tandem::text
