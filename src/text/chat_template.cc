#include "text/chat_template.h"

#include <algorithm>

#include "text/jinja_ast.h"
#include "text/jinja_content.h"
#include "text/jinja_interp.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace tandem::text {
namespace {

// Names are views into the input.
using Variables = std::vector<std::pair<std::string_view, Value>>;

Variables VariablesOf(const RenderInput& input) {
  Variables variables;
  variables.reserve(8 + input.kwargs.size());
  const auto token = [&](const char* name, const std::optional<std::string>& text) {
    if (text) variables.emplace_back(name, Value::String(*text));
  };
  token("bos_token", input.bos_token);
  token("eos_token", input.eos_token);
  token("unk_token", input.unk_token);
  token("pad_token", input.pad_token);
  for (const auto& [name, value] : input.kwargs) variables.emplace_back(name, value);
  variables.emplace_back("messages", input.messages);
  variables.emplace_back("tools", input.tools);
  variables.emplace_back("documents", input.documents);
  variables.emplace_back("add_generation_prompt", Value::Bool(input.add_generation_prompt));
  return variables;
}

// The text of the last message: its content, or the last text among its parts.
Result<std::string> FinalText(const Value& messages) {
  if (!messages.IsSequence() || messages.Items().empty() || !messages.Items().back().IsDict()) {
    return FieldErr("continue_final_message", "continue_final_message needs a last message");
  }
  const Value* content = messages.Items().back().AsDict().Find("content");
  if (content != nullptr && content->IsSequence()) {
    const auto& parts = content->Items();
    const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const Value& part) {
      return part.IsDict() && part.AsDict().Find("text") != nullptr;
    });
    content = last == parts.rend() ? nullptr : last->AsDict().Find("text");
  }
  if (content == nullptr || !content->IsString()) {
    return FieldErr("continue_final_message",
                    "continue_final_message needs a last message with text content");
  }
  return content->AsString();
}

// Cuts the rendering right behind the last message's text, so that the model goes on with it.
Result<std::string> CutAfterFinalText(std::string rendered, const Value& messages) {
  TRY_ASSIGN(const std::string text, FinalText(messages));
  const std::string_view stripped = Strip(text);
  const size_t at = rendered.rfind(stripped);
  if (at == std::string::npos) {
    return FieldErr("continue_final_message",
                    "continue_final_message: the chat template does not write out the last "
                    "message; use a template that does, or leave the flag off");
  }
  // A template may trim the message's trailing white space or keep it.
  const std::string_view from_left = StripLeft(text);
  const bool kept = std::string_view(rendered).substr(at, from_left.size()) == text;
  rendered.resize(at + (kept ? from_left.size() : stripped.size()));
  return rendered;
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Program> program)
    : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Compile(std::string_view text) {
  if (text.size() > kMaxTemplateBytes) {
    return Err(Code::kInvalidArgument, "chat template has {} bytes; at most {} are supported",
               text.size(), kMaxTemplateBytes);
  }
  TRY_ASSIGN(std::vector<jinja::Token> tokens, jinja::Tokenise(text));
  TRY_ASSIGN(auto program, jinja::Parser(std::move(tokens)).Run());
  return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::Render(const RenderInput& input) const {
  jinja::Interp interp(*program_, input.limits, input.now);
  TRY_ASSIGN(std::string rendered, interp.Run(VariablesOf(input)));
  if (!input.continue_final_message) return rendered;
  return CutAfterFinalText(std::move(rendered), input.messages);
}

bool ChatTemplate::LoopsOverContent() const { return jinja::LoopsOverContent(*program_); }

}  // namespace tandem::text
