#include "frontend/content_form.h"

#include <string>
#include <utility>
#include <vector>

namespace tandem::frontend {
namespace {

using text::Value;

constexpr std::string_view kProbe = "tandem-content-probe";
constexpr uint64_t kProbeSteps = 2'000'000;

// Whether a user's message with this content shows up in the prompt.
bool Shows(const text::ChatTemplate& chat_template, Value content) {
  text::Dict message;
  message.Set("role", Value::String("user"));
  message.Set("content", std::move(content));
  text::RenderInput input;
  input.messages = Value::List({Value::FromDict(std::move(message))});
  input.bos_token = input.eos_token = input.unk_token = input.pad_token = "";
  input.limits.steps = kProbeSteps;
  const auto rendered = chat_template.Render(input);
  return rendered && rendered->find(kProbe) != std::string::npos;
}

Value Parts() {
  text::Dict part;
  part.Set("type", Value::String("text"));
  part.Set("text", Value::String(std::string(kProbe)));
  return Value::List({Value::FromDict(std::move(part))});
}

}  // namespace

ContentForm ChooseContentForm(const text::ChatTemplate& chat_template, std::string_view format,
                              TemplateOrigin origin) {
  if (format == "string") return {};
  if (format == "openai") return {.keeps_parts = true, .wraps_strings = true};
  if (!chat_template.LoopsOverContent()) return {};
  if (origin == TemplateOrigin::kRequest) return {.keeps_parts = true, .wraps_strings = false};
  const bool loses_strings = !Shows(chat_template, Value::String(std::string(kProbe)));
  return {.keeps_parts = true, .wraps_strings = loses_strings && Shows(chat_template, Parts())};
}

}  // namespace tandem::frontend
