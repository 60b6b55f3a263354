// Whether a chat template goes through the parts of a message's content, by its syntax.
#ifndef TANDEM_TEXT_JINJA_CONTENT_H_
#define TANDEM_TEXT_JINJA_CONTENT_H_

#include "text/jinja_ast.h"

namespace tandem::text::jinja {

// True if some loop runs over `item.content` (or item['content'], filtered, sliced or not) of an
// item of another loop over `messages` or over a variable set from it, or over a variable called
// content, as macros name it. These are vLLM's rules for --chat-template-content-format auto.
// Scopes are not told apart, as there.
bool LoopsOverContent(const Program& program);

}  // namespace tandem::text::jinja

#endif  // TANDEM_TEXT_JINJA_CONTENT_H_
