// One generate request from its validated form to the last byte of its answer.
#ifndef TANDEM_FRONTEND_ANSWER_H_
#define TANDEM_FRONTEND_ANSWER_H_

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/answer_writer.h"
#include "frontend/choice.h"
#include "frontend/prompt_runs.h"
#include "frontend/request_context.h"
#include "frontend/services.h"

namespace tandem::frontend {

class Answer {
 public:
  // All arguments outlive the answer, which takes the request's body.
  Answer(Services& services, Endpoint endpoint, net::HttpRequest& request,
         net::HttpResponder& responder, RequestContext& context);
  ~Answer();
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  // The error is what the client has to be told, unless it is gone.
  rt::Task<Status> Run();

  const std::string& model() const { return model_; }  // empty until it is known to exist
  bool stream() const { return stream_; }

 private:
  struct Slot;  // one choice of one prompt

  rt::Task<Status> Parse();
  rt::Task<Status> Prepare();
  Result<std::vector<std::vector<TokenId>>> MakePrompts(const ModelAssets& assets);
  void DropInput();
  Status StartRuns(std::vector<std::vector<TokenId>> prompts, const router::ModelGroup& group);
  rt::Task<Status> RunWhole();
  rt::Task<Status> RunStream();
  ChoiceDelta Accept(PromptRuns::Item event, Slot& slot);
  void NoteFirst(const wire::GenerateItem& item);
  void NoteTokens(const wire::GenerateItem& item, Slot& slot);
  void AppendEvents(std::string& out, Slot& slot, const ChoiceDelta& delta);
  Slot& SlotOf(const PromptRuns::Item& event);
  Usage CurrentUsage() const;
  std::string Nvext() const;
  const GenerateParams& params() const;

  Services& services_;
  const Endpoint endpoint_;
  net::HttpRequest& request_;
  net::HttpResponder& responder_;
  RequestContext& context_;

  std::variant<std::monostate, ChatRequest, CompletionRequest> parsed_;
  bool stream_ = false;
  bool counted_ = false;
  std::string model_;
  ModelMetrics* metrics_ = nullptr;
  Assets assets_;
  std::optional<PromptRuns> runs_;
  std::optional<AnswerWriter> writer_;
  std::vector<Slot> slots_;
  size_t open_ = 0;  // slots that have not finished
  bool first_token_ = false;
  MonoTime first_token_time_;
  int64_t prompt_tokens_ = 0;
  int64_t completion_tokens_ = 0;
  wire::GenerateItem facts_;  // sums over the prompts' first items
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_ANSWER_H_
