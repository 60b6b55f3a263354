// POST /v1/chat/completions and /v1/completions.
#ifndef TANDEM_FRONTEND_GENERATE_HANDLER_H_
#define TANDEM_FRONTEND_GENERATE_HANDLER_H_

#include "frontend/answer_writer.h"
#include "frontend/services.h"
#include "net/http_server.h"

namespace tandem::frontend {

// Always answers, unless the client is gone. `services` outlives the task.
rt::Task<void> HandleGenerate(Services& services, Endpoint endpoint, net::HttpRequest request,
                              net::HttpResponder& responder);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_GENERATE_HANDLER_H_
