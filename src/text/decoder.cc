#include "text/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/clean_spaces.h"
#include "text/regex.h"
#include "text/token_model.h"
#include "text/utf8_scan.h"

namespace tandem::text {
namespace {

constexpr uint32_t kGgufAlphabet = 1;
constexpr uint32_t kGgufSpaces = 2;
constexpr uint32_t kGgufFirstSpace = 4;

void AppendReplaced(std::string_view text, std::string_view what, std::string_view with,
                    std::string& out) {
  size_t done = 0;
  while (!what.empty()) {
    const size_t found = text.find(what, done);
    if (found == std::string_view::npos) break;
    out.append(text.substr(done, found - done)).append(with);
    done = found + what.size();
  }
  out.append(text.substr(done));
}

void AppendReplaced(std::string_view text, const Regex& regex, std::string_view with,
                    std::string& out) {
  std::vector<Regex::Match> matches;
  regex.FindAll(text, matches);
  size_t done = 0;
  for (const Regex::Match& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(with);
    done = match.end;
  }
  out.append(text.substr(done));
}

std::string Replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string out;
  AppendReplaced(text, what, with, out);
  return out;
}

bool MakesBytes(DecoderKind kind) {
  return kind == DecoderKind::kByteLevel || kind == DecoderKind::kGguf;
}

bool IsVerbatim(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

}  // namespace

struct Decoder::Step {
  enum class Type : uint8_t {
    kUtf8,       // bytes to text; what is no UTF-8 becomes U+FFFD
    kDropSpace,  // one space at the beginning of the first token
    kReplace,    // within a token, or within each piece of a fused text
    kByteFallback,
    kFuse,
    kStrip,      // within a token
    kStripLeft,  // at the beginning of a fused text
    kMetaspace,
    kWordPiece,
    kBpe,
    kCtc,
    kJoinSpaces,
    kWholeText,  // kStrip or kReplace of a fused text that must be seen whole
    kCleanSpaces,
  };
  Type type;
  PipelineStep<DecoderKind> data;
  std::optional<Regex> regex;

  // `fused`: tokens have become one text before this step, and arrive in pieces.
  static Type TypeOf(const PipelineStep<DecoderKind>& data, bool fused);

  std::string Replace(std::string_view text) const {
    std::string out;
    if (regex) {
      AppendReplaced(text, *regex, data.content, out);
    } else {
      AppendReplaced(text, data.text, data.content, out);
    }
    return out;
  }
  std::string_view Strip(std::string_view text) const {
    for (uint32_t i = 0; i < data.flags && !data.text.empty(); ++i) {
      if (!text.starts_with(data.text)) break;
      text.remove_prefix(data.text.size());
    }
    for (uint32_t i = 0; i < data.number && !data.text.empty(); ++i) {
      if (!text.ends_with(data.text)) break;
      text.remove_suffix(data.text.size());
    }
    return text;
  }
};

Decoder::Step::Type Decoder::Step::TypeOf(const PipelineStep<DecoderKind>& data, bool fused) {
  switch (data.kind) {
    case DecoderKind::kGguf:
    case DecoderKind::kByteLevel:
      return Type::kUtf8;
    case DecoderKind::kReplaceText: {
      // A piece of a fused text may end inside a longer pattern.
      const bool one_char = data.text.empty() || data.text.size() == CharBytes(data.text.front());
      return fused && !one_char ? Type::kWholeText : Type::kReplace;
    }
    case DecoderKind::kReplaceRegex:
      return fused ? Type::kWholeText : Type::kReplace;
    case DecoderKind::kByteFallback:
      return Type::kByteFallback;
    case DecoderKind::kFuse:
      return Type::kFuse;
    case DecoderKind::kStrip:
      if (!fused) return Type::kStrip;
      return data.number > 0 ? Type::kWholeText : Type::kStripLeft;
    case DecoderKind::kMetaspace:
      return Type::kMetaspace;
    case DecoderKind::kWordPiece:
      return Type::kWordPiece;
    case DecoderKind::kBpe:
      return Type::kBpe;
    case DecoderKind::kCtc:
      return Type::kCtc;
    case DecoderKind::kJoinSpaces:
      return Type::kJoinSpaces;
    case DecoderKind::kCleanSpaces:
      return Type::kCleanSpaces;
  }
  return Type::kFuse;
}

Decoder::Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Result<Decoder> Decoder::Create(const TokenizerSpec& spec, Texts texts) {
  Decoder decoder;
  decoder.tokens_ = &spec.tokens;
  decoder.texts_ = std::move(texts);
  TRY(decoder.AddSteps(spec));
  return decoder;
}

std::string_view Decoder::TextOf(size_t id) const {
  if (!texts_.empty()) {
    if (const auto found = texts_.find(id); found != texts_.end()) return found->second;
  }
  return (*tokens_)[id];
}

Status Decoder::AddSteps(const TokenizerSpec& spec) {
  const std::vector<PipelineStep<DecoderKind>>& steps = spec.decoders;
  size_t folded = 0;
  while (folded < steps.size() && steps[folded].kind == DecoderKind::kReplaceText) ++folded;
  const bool to_bytes = folded < steps.size() && MakesBytes(steps[folded].kind);
  FillBytes(spec, to_bytes ? folded + 1 : folded);
  reads_bytes_ =
      to_bytes || folded > 0 || (!steps.empty() && steps[0].kind == DecoderKind::kByteFallback);
  bool fused = false;
  for (size_t i = folded; i < steps.size(); ++i) {
    const PipelineStep<DecoderKind>& step = steps[i];
    if (MakesBytes(step.kind) && i > folded) {
      return Err(Code::kUnsupported,
                 "tokenizer decoder: bytes after a step that joins tokens are not supported");
    }
    if (step.kind == DecoderKind::kGguf && (step.flags & kGgufFirstSpace) != 0) {
      steps_.push_back({Step::Type::kDropSpace, step, std::nullopt});
    }
    steps_.push_back({Step::TypeOf(step, fused), step, std::nullopt});
    if (step.kind == DecoderKind::kReplaceRegex) {
      TRY_ASSIGN(steps_.back().regex, Regex::Compile(step.text));
    }
    fused |= MakesBytes(step.kind) || step.kind == DecoderKind::kFuse;
  }
  return {};
}

void Decoder::FillBytes(const TokenizerSpec& spec, size_t folded) {
  const bool fallback = std::any_of(spec.decoders.begin(), spec.decoders.end(), [](const auto& s) {
    return s.kind == DecoderKind::kByteFallback;
  });
  const bool metaspace = !spec.decoders.empty() && spec.decoders[0].kind == DecoderKind::kMetaspace;
  offsets_.reserve(spec.tokens.size() + 1);
  is_byte_.resize(spec.tokens.size());
  std::string now;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    now = TextOf(id);
    const TokenType type = spec.token_types.empty() ? TokenType::kNormal : spec.token_types[id];
    for (size_t i = 0; i < folded; ++i) {
      const PipelineStep<DecoderKind>& step = spec.decoders[i];
      const bool gguf = step.kind == DecoderKind::kGguf;
      if (gguf && type == TokenType::kUnknown && !step.content.empty()) now = step.content;
      if (gguf && IsVerbatim(type)) continue;
      if (gguf && type == TokenType::kUnused) now.clear();
      const int byte = gguf && type == TokenType::kByte ? ByteOfToken(now) : -1;
      if (byte >= 0) {
        now.assign(1, static_cast<char>(byte));
      } else if (step.kind == DecoderKind::kByteLevel ||
                 (gguf && (step.flags & kGgufAlphabet) != 0)) {
        if (auto plain = BytesOfSymbols(now)) now = *std::move(plain);
      } else if (gguf && (step.flags & kGgufSpaces) != 0) {
        now = Replaced(now, "\u2581", " ");
      } else if (step.kind == DecoderKind::kReplaceText) {
        now = Replaced(now, step.text, step.content);
      }
    }
    // For those who ask for a token by itself.
    if (metaspace) now = Replaced(now, spec.decoders[0].text, " ");
    const int byte = fallback ? ByteOfToken(now) : -1;
    if (byte >= 0) {
      is_byte_[id] = true;
      now.assign(1, static_cast<char>(byte));
    }
    bytes_.append(now);
  }
  offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
}

DecodeState::DecodeState(const Decoder& decoder, Mode mode)
    : decoder_(&decoder), mode_(mode), memories_(decoder.steps_.size()) {
  for (size_t i = 0; i < memories_.size(); ++i) memories_[i].left = decoder.steps_[i].data.flags;
}

void DecodeState::Push(size_t id, std::string& out) {
  const std::string_view text =
      decoder_->reads_bytes_ ? decoder_->BytesOf(id) : decoder_->TextOf(id);
  Run(0, {text, decoder_->is_byte_[id]}, out);
}

void DecodeState::Flush(std::string& out) {
  for (size_t step = 0; step < memories_.size(); ++step) Finish(step, out);
}

void DecodeState::Pass(size_t step, std::string_view text, std::string& out) {
  Run(step + 1, {text, false}, out);
}

void DecodeState::Run(size_t step, Token token, std::string& out) {
  using Type = Decoder::Step::Type;
  if (step == memories_.size()) {
    out.append(token.text);
    return;
  }
  const Decoder::Step& rule = decoder_->steps_[step];
  Memory& memory = memories_[step];
  const bool first = !std::exchange(memory.started, true);
  switch (rule.type) {
    case Type::kUtf8: {
      std::string text;
      memory.utf8.Push(token.text, text);
      if (!text.empty()) Pass(step, text, out);
      return;
    }
    case Type::kDropSpace:
      if (first && token.text.starts_with(' ')) token.text.remove_prefix(1);
      return Run(step + 1, token, out);
    case Type::kFuse:
      return Pass(step, token.text, out);
    case Type::kReplace:
      return Pass(step, rule.Replace(token.text), out);
    case Type::kByteFallback:
      return ByteFallback(step, token, out);
    case Type::kStrip:
      return Pass(step, rule.Strip(token.text), out);
    case Type::kStripLeft:
      return StripLeft(step, token.text, out);
    case Type::kMetaspace: {
      const bool dropped = first && (rule.data.flags & 1) != 0;
      return Pass(step, Replaced(token.text, rule.data.text, dropped ? "" : " "), out);
    }
    case Type::kWordPiece: {
      std::string text;
      if (!first && !token.text.starts_with(rule.data.text)) text = " ";
      const size_t prefix = !first && text.empty() ? rule.data.text.size() : 0;
      text.append(token.text.substr(prefix));
      if ((rule.data.flags & 1) != 0) text = CleanWordPiece(text);
      return Pass(step, text, out);
    }
    case Type::kBpe:
      if (memory.has_held) Pass(step, Replaced(memory.held, rule.data.text, " "), out);
      memory.held = token.text;
      memory.has_held = true;
      return;
    case Type::kCtc: {
      if (memory.has_held && memory.held == token.text) return;
      memory.held = token.text;
      memory.has_held = true;
      std::string text = Replaced(token.text, rule.data.text, "");
      if ((rule.data.flags & 1) != 0) {
        text = Replaced(CleanWordPiece(text), rule.data.content, " ");
      }
      if (!text.empty()) Pass(step, text, out);
      return;
    }
    case Type::kJoinSpaces:
      return Pass(step, first ? std::string(token.text) : " " + std::string(token.text), out);
    case Type::kCleanSpaces:
      if (mode_ == Mode::kStream) return Pass(step, token.text, out);
      [[fallthrough]];
    case Type::kWholeText:
      memory.held.append(token.text);
      return;
  }
}

void DecodeState::StripLeft(size_t step, std::string_view text, std::string& out) {
  const std::string& what = decoder_->steps_[step].data.text;
  uint32_t& left = memories_[step].left;
  for (; left > 0 && !text.empty() && !what.empty(); --left) {
    if (!text.starts_with(what)) {
      left = 0;
      break;
    }
    text.remove_prefix(what.size());
  }
  Pass(step, text, out);
}

void DecodeState::ByteFallback(size_t step, Token token, std::string& out) {
  Memory& memory = memories_[step];
  if (!token.is_byte) {
    EndBytes(step, out);
    return Pass(step, token.text, out);
  }
  if (mode_ == Mode::kWhole) {
    memory.held.append(token.text);
    return;
  }
  std::string text;
  memory.utf8.Push(token.text, text);
  if (!text.empty()) Pass(step, text, out);
}

void DecodeState::EndBytes(size_t step, std::string& out) {
  Memory& memory = memories_[step];
  if (mode_ == Mode::kStream) {
    std::string text;
    memory.utf8.Flush(text);
    if (!text.empty()) Pass(step, text, out);
    return;
  }
  if (memory.held.empty()) return;
  const std::string run = std::exchange(memory.held, {});
  if (IsValidUtf8(run)) return Pass(step, run, out);
  for (size_t i = 0; i < run.size(); ++i) Pass(step, kReplacement, out);
}

void DecodeState::Finish(size_t step, std::string& out) {
  using Type = Decoder::Step::Type;
  const Decoder::Step& rule = decoder_->steps_[step];
  Memory& memory = memories_[step];
  switch (rule.type) {
    case Type::kUtf8: {
      std::string text;
      memory.utf8.Flush(text);
      if (!text.empty()) Pass(step, text, out);
      return;
    }
    case Type::kByteFallback:
      return EndBytes(step, out);
    case Type::kBpe:
      if (memory.has_held) Pass(step, Replaced(memory.held, rule.data.text, ""), out);
      return;
    case Type::kCleanSpaces:
      if (mode_ == Mode::kWhole) Pass(step, CleanSpaces(memory.held), out);
      return;
    case Type::kWholeText: {
      const bool strips = rule.data.kind == DecoderKind::kStrip;
      return Pass(step, strips ? std::string(rule.Strip(memory.held)) : rule.Replace(memory.held),
                  out);
    }
    default:
      return;
  }
}

}  // namespace tandem::text
