// The JSON of answers: chat and completions, whole and as server-sent events. Pure.
#ifndef TANDEM_FRONTEND_ANSWER_WRITER_H_
#define TANDEM_FRONTEND_ANSWER_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/assets.h"
#include "frontend/choice.h"
#include "frontend/frontend_metrics.h"
#include "frontend/request.h"

namespace tandem::frontend {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
};

// A finished choice of a whole answer.
struct ChoiceAnswer {
  ChoiceDelta delta;  // all of them, joined
  std::span<const TokenId> prompt;
};

class AnswerWriter {
 public:
  // `params` and `assets` outlive the writer. `created` is in seconds since 1970.
  AnswerWriter(Endpoint endpoint, std::string_view id, int64_t created, std::string_view model,
               const GenerateParams& params, const ModelAssets& assets);

  // `nvext`: JSON text of the extension, or empty.
  std::string Whole(std::span<const ChoiceAnswer> choices, const Usage& usage,
                    std::string_view nvext) const;

  // Events, appended to `out`. The role chunk opens each choice of a chat; `prompt` is shown there
  // (for completions in the first delta) if the client asked for token ids.
  void AppendRole(std::string& out, size_t index, std::span<const TokenId> prompt) const;
  // `usage` is null unless the client wants it in every chunk.
  void AppendDelta(std::string& out, size_t index, const ChoiceDelta& delta,
                   std::span<const TokenId> prompt, const Usage* usage,
                   std::string_view nvext) const;
  void AppendUsage(std::string& out, const Usage& usage) const;
  static void AppendError(std::string& out, const Error& error);
  static void AppendDone(std::string& out);

 private:
  void AppendLogprobs(std::string& out, const ChoiceDelta& delta) const;
  void AppendChatLogprobs(std::string& out, const ChoiceDelta& delta) const;
  void AppendCompletionLogprobs(std::string& out, const ChoiceDelta& delta) const;
  void AppendTokenFields(std::string& out, TokenId id, float logprob) const;
  void AppendFinish(std::string& out, const ChoiceDelta& delta) const;
  void AppendIds(std::string& out, std::string_view name, std::span<const TokenId> ids) const;

  Endpoint endpoint_;
  const GenerateParams& params_;
  const ModelAssets& assets_;
  std::string whole_head_;  // up to and including "choices":[
  std::string event_head_;  // the same of an event
};

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_ANSWER_WRITER_H_
