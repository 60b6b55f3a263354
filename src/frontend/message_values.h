// From the messages of a request to what a chat template sees of them.
#ifndef TANDEM_FRONTEND_MESSAGE_VALUES_H_
#define TANDEM_FRONTEND_MESSAGE_VALUES_H_

#include "frontend/content_form.h"
#include "text/value.h"
#include "wire/json.h"

namespace tandem::frontend {

text::Value ToValue(const wire::Json& json);

// `messages` passed the request's checks: objects whose content is null, a text or text parts.
// An absent or null content is an empty text; arguments of tool calls that are JSON text become
// values.
text::Value MessagesValue(const wire::Json& messages, ContentForm form);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_MESSAGE_VALUES_H_
