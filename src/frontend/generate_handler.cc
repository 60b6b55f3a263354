#include "frontend/generate_handler.h"

#include <string>
#include <utility>

#include "frontend/answer.h"
#include "frontend/request_context.h"

namespace tandem::frontend {
namespace {

Status CheckAdmission(const Services& services) {
  if (services.inflight < services.options.max_inflight) return {};
  return Err(Code::kOverloaded,
             "{} requests are under way, the most that this frontend takes; "
             "try again later",
             services.inflight);
}

rt::Task<void> TellError(RequestContext& context, net::HttpResponder& responder, Error error) {
  if (context.ClientGone()) co_return;
  if (!responder.Started()) {
    (void)co_await context.RespondError(responder, std::move(error));
    co_return;
  }
  std::string out;
  AnswerWriter::AppendError(out, error);
  AnswerWriter::AppendDone(out);
  if (co_await responder.Write(out)) (void)co_await responder.Finish();
}

}  // namespace

rt::Task<void> HandleGenerate(Services& services, Endpoint endpoint, net::HttpRequest request,
                              net::HttpResponder& responder) {
  RequestContext context(services, request);
  Status status = context.ReadHeaders();
  if (status) status = CheckAdmission(services);
  std::string model;
  bool stream = false;
  if (status) {
    Answer answer(services, endpoint, request, responder, context);
    status = co_await answer.Run();
    model = answer.model();
    stream = answer.stream();
  }
  if (status) co_return;
  Error error = context.ForClient(std::move(status).error());
  services.metrics.CountFailed(model, endpoint, stream, error);
  if (context.ClientGone()) services.metrics.CountDisconnect();
  co_await TellError(context, responder, std::move(error));
}

}  // namespace tandem::frontend
