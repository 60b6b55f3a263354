// The fields that decide the text of a chat prompt, shared by chat and /tokenize.
#ifndef TANDEM_FRONTEND_CHAT_FIELDS_H_
#define TANDEM_FRONTEND_CHAT_FIELDS_H_

#include <span>

#include "frontend/request.h"
#include "frontend/schema.h"

namespace tandem::frontend {

std::span<const Field<ChatPrompt>> ChatPromptFields();
// Rules between fields, after all were read: variables that are flags set them.
Status SettleChatPrompt(ChatPrompt& prompt);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_CHAT_FIELDS_H_
