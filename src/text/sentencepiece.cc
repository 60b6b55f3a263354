#include "text/sentencepiece.h"

#include <algorithm>
#include <string>
#include <utility>

#include "text/proto_reader.h"
#include "text/score_merges.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

std::unexpected<Error> Damaged(std::string_view what) {
  return Err(Code::kCorrupt, "tokenizer.model: {}; the file is damaged: download it again", what);
}

// sentencepiece_model.proto, the fields that matter here and their defaults.
struct Proto {
  enum ModelType : uint64_t { kUnigram = 1, kBpe = 2 };
  uint64_t model_type = kUnigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  int32_t unk_id = 0;
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  int32_t pad_id = -1;
  std::string unk_surface = " \u2047 ";
  std::string_view charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

Status ReadPiece(std::string_view message, TokenizerSpec& spec) {
  ProtoReader reader(message);
  std::string_view text;
  float score = 0;
  uint64_t type = 1;
  while (const auto field = reader.Next()) {
    if (field->number == 1) text = field->bytes;
    if (field->number == 2) score = field->AsFloat();
    if (field->number == 3) type = field->value;
  }
  if (!reader.ok() || type < 1 || type > 6 || text.empty()) {
    return Damaged("a piece without text or type");
  }
  if (!IsValidUtf8(text)) return Damaged("a piece that is not UTF-8");
  if (spec.tokens.size() >= kMaxTokens) return Damaged("more than two million pieces");
  spec.tokens.emplace_back(text);
  spec.scores.push_back(score);
  spec.token_types.push_back(static_cast<TokenType>(type));
  return {};
}

Status ReadTrainer(std::string_view message, Proto& proto) {
  ProtoReader reader(message);
  while (const auto field = reader.Next()) {
    switch (field->number) {
      case 3:
        proto.model_type = field->value;
        break;
      case 24:
        proto.whitespace_as_suffix = field->value != 0;
        break;
      case 35:
        proto.byte_fallback = field->value != 0;
        break;
      case 40:
        proto.unk_id = field->AsInt();
        break;
      case 41:
        proto.bos_id = field->AsInt();
        break;
      case 42:
        proto.eos_id = field->AsInt();
        break;
      case 43:
        proto.pad_id = field->AsInt();
        break;
      case 44:
        proto.unk_surface = field->bytes;
        break;
      default:
        break;
    }
  }
  return reader.ok() ? Status() : Damaged("its trainer_spec is cut short");
}

Status ReadNormalizer(std::string_view message, Proto& proto) {
  ProtoReader reader(message);
  while (const auto field = reader.Next()) {
    if (field->number == 2) proto.charsmap = field->bytes;
    if (field->number == 3) proto.add_dummy_prefix = field->value != 0;
    if (field->number == 4) proto.remove_extra_whitespaces = field->value != 0;
    if (field->number == 5) proto.escape_whitespaces = field->value != 0;
  }
  return reader.ok() ? Status() : Damaged("its normalizer_spec is cut short");
}

Result<Proto> ReadProto(std::string_view bytes, TokenizerSpec& spec) {
  Proto proto;
  ProtoReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number > 3) continue;
    if (!field->has_bytes) return Damaged("it is no SentencePiece model");
    if (field->number == 1) TRY(ReadPiece(field->bytes, spec));
    if (field->number == 2) TRY(ReadTrainer(field->bytes, proto));
    if (field->number == 3) TRY(ReadNormalizer(field->bytes, proto));
  }
  if (!reader.ok() || spec.tokens.empty()) return Damaged("it is no SentencePiece model");
  return proto;
}

void SetNormalizers(const Proto& proto, TokenizerSpec& spec) {
  const auto add = [&](NormalizerKind kind, std::string_view text, std::string_view content) {
    PipelineStep<NormalizerKind>& step = spec.normalizers.emplace_back();
    step.kind = kind;
    step.text = text;
    step.content = content;
  };
  const std::string_view space = proto.escape_whitespaces ? kSpaceMark : " ";
  if (!proto.charsmap.empty()) add(NormalizerKind::kCharsmapSpm, proto.charsmap, "");
  if (proto.remove_extra_whitespaces) add(NormalizerKind::kSqueezeSpaces, "", "");
  if (proto.add_dummy_prefix) add(NormalizerKind::kPrepend, "", space);
  if (proto.escape_whitespaces) add(NormalizerKind::kReplaceText, " ", kSpaceMark);
}

void SetAdded(TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenType type = spec.token_types[id];
    const auto token = static_cast<int32_t>(id);
    if (type == TokenType::kControl || type == TokenType::kUnknown) {
      spec.added.push_back({token, AddedToken::kSpecial});
    } else if (type == TokenType::kUserDefined) {
      spec.added.push_back(
          {token, AddedToken::kNormalized | AddedToken::kVerbatim | AddedToken::kInModel});
    }
  }
}

void SetNames(const Proto& proto, TokenizerSpec& spec) {
  const auto set = [&](int32_t id, std::optional<int32_t>& name) {
    if (id >= 0 && static_cast<size_t>(id) < spec.tokens.size()) name = id;
  };
  set(proto.unk_id, spec.unk_id);
  set(proto.bos_id, spec.bos_id);
  set(proto.eos_id, spec.eos_id);
  set(proto.pad_id, spec.pad_id);
  spec.model.unk_id = spec.unk_id;
  if (proto.model_type == Proto::kBpe) {
    if (spec.bos_id) spec.prefix = {*spec.bos_id};
  } else if (spec.eos_id) {
    spec.suffix = {*spec.eos_id};
  }
}

Status SetModel(const Proto& proto, TokenizerSpec& spec) {
  spec.model.flags = TokenModel::kFuseUnknown;
  if (proto.byte_fallback) spec.model.flags |= TokenModel::kByteFallback;
  if (proto.model_type == Proto::kBpe) {
    spec.model.kind = ModelKind::kBpe;
    spec.model.flags |= TokenModel::kRankByScore;
    std::vector<bool> mergeable;
    for (const TokenType type : spec.token_types) {
      mergeable.push_back(type == TokenType::kNormal || type == TokenType::kUserDefined);
    }
    return AddScoreMerges(mergeable, spec);
  }
  if (proto.model_type != Proto::kUnigram) {
    return Err(Code::kUnsupported,
               "tokenizer.model: model_type {} is not supported; supported are 1 (unigram) and 2 "
               "(BPE)",
               proto.model_type);
  }
  spec.model.kind = ModelKind::kUnigram;
  float best = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] == TokenType::kNormal) best = std::max(best, spec.scores[id]);
  }
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] != TokenType::kUserDefined) continue;
    spec.scores[id] = static_cast<float>(spec.tokens[id].size()) * best - 0.1F;
  }
  // Byte pieces stand for bytes, never for their own text.
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    if (spec.token_types[id] == TokenType::kByte) {
      spec.scores[id] = -std::numeric_limits<float>::infinity();
    }
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> ReadSentencePiece(std::string_view model_proto_bytes) {
  TokenizerSpec spec;
  TRY_ASSIGN(const Proto proto, ReadProto(model_proto_bytes, spec));
  if (proto.whitespace_as_suffix) {
    return Err(Code::kUnsupported,
               "tokenizer.model: treat_whitespace_as_suffix is not supported; convert the model "
               "to tokenizer.json");
  }
  SetNames(proto, spec);
  SetAdded(spec);
  SetNormalizers(proto, spec);
  TRY(SetModel(proto, spec));
  PipelineStep<DecoderKind>& decoder = spec.decoders.emplace_back();
  decoder.kind = DecoderKind::kGguf;
  decoder.flags = 2U | (proto.add_dummy_prefix || proto.remove_extra_whitespaces ? 4U : 0U);
  decoder.content = proto.unk_surface;
  if (Status valid = Validate(spec); !valid) return Damaged(valid.error().message);
  return spec;
}

}  // namespace tandem::text
