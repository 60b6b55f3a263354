// In which form a chat template gets the contents of messages: texts, or lists of parts.
#ifndef TANDEM_FRONTEND_CONTENT_FORM_H_
#define TANDEM_FRONTEND_CONTENT_FORM_H_

#include <string_view>

#include "text/chat_template.h"

namespace tandem::frontend {

struct ContentForm {
  bool keeps_parts = false;    // else the texts of the parts are joined by line breaks
  bool wraps_strings = false;  // a text becomes a list of one part
};

// `format` is that of --chat-template-content-format. "string": texts. "openai": lists of parts,
// always. "auto" (or ""): parts stay parts where the template goes through them, and a text stays a
// text unless a trial shows that the template would lose it. The reference's auto wraps texts in
// every such template, which those with a branch for texts (tool results, often) write out as a
// list. Who sends a template of its own along with the messages wrote the one for the other: then
// auto wraps nothing.
enum class TemplateOrigin { kModel, kRequest };
ContentForm ChooseContentForm(const text::ChatTemplate& chat_template, std::string_view format,
                              TemplateOrigin origin);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_CONTENT_FORM_H_
