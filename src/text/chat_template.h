// A model's chat template: Jinja as Hugging Face transformers runs it (immutable sandbox,
// trim_blocks, lstrip_blocks, loop controls, the generation tag, tojson, raise_exception,
// strftime_now).
#ifndef TANDEM_TEXT_CHAT_TEMPLATE_H_
#define TANDEM_TEXT_CHAT_TEMPLATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/value.h"

namespace tandem::text {

namespace jinja {
struct Program;
}

// What one rendering may use; templates and conversations are not trusted.
struct RenderLimits {
  uint64_t steps = 20'000'000;              // nodes evaluated and items visited
  size_t output_bytes = size_t{64} << 20;   // of the rendered text
  size_t memory_bytes = size_t{512} << 20;  // of all values made along the way, freed or not
  uint32_t depth = 100;                     // of macro calls and recursive loops
};

struct RenderInput {
  Value messages;                   // list of dicts
  Value tools = Value::None();      // list of dicts, or none
  Value documents = Value::None();  // list of dicts, or none
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // end right after the text of the last message
  // Absent: the name is undefined in the template.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> unk_token;
  std::optional<std::string> pad_token;
  // More variables (chat_template_kwargs); they win over the tokens, not over the fields above.
  std::vector<std::pair<std::string, Value>> kwargs;
  int64_t now = 0;  // for strftime_now: seconds since 1970 of the local wall clock (UTC + offset)
  RenderLimits limits;
};

// Immutable: any number of threads may render at once.
class ChatTemplate {
 public:
  // kInvalidArgument with the line for a syntax error.
  static Result<ChatTemplate> Compile(std::string_view text);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument for whatever the template itself refuses (raise_exception) or trips over, with
  // the line; kResourceExhausted where a limit is reached.
  Result<std::string> Render(const RenderInput& input) const;
  // Whether it is written for contents that are lists of parts (jinja_content.h).
  bool LoopsOverContent() const;

 private:
  explicit ChatTemplate(std::unique_ptr<const jinja::Program> program);
  std::unique_ptr<const jinja::Program> program_;
};

}  // namespace tandem::text

#endif  // TANDEM_TEXT_CHAT_TEMPLATE_H_
