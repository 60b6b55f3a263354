// POST /tokenize and /detokenize, as vLLM's.
#ifndef TANDEM_FRONTEND_TOKENIZE_HANDLER_H_
#define TANDEM_FRONTEND_TOKENIZE_HANDLER_H_

#include "frontend/services.h"
#include "net/http_server.h"

namespace tandem::frontend {

rt::Task<void> HandleTokenize(Services& services, net::HttpRequest request,
                              net::HttpResponder& responder);
rt::Task<void> HandleDetokenize(Services& services, net::HttpRequest request,
                                net::HttpResponder& responder);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_TOKENIZE_HANDLER_H_
