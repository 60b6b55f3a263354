// One choice of an answer: from token ids to text, stop strings, log probabilities, finish reason.
// Pure; one thread at a time.
#ifndef TANDEM_FRONTEND_CHOICE_H_
#define TANDEM_FRONTEND_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/assets.h"
#include "frontend/request.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "wire/messages.h"

namespace tandem::frontend {

// What an item adds to a choice.
struct ChoiceDelta {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<wire::TokenLogprob> logprobs;  // as many as tokens, or none
  size_t text_offset = 0;                    // code points of the token texts before these tokens
  // On the last delta.
  bool finished = false;
  std::string_view finish_reason;     // "stop", "length", "abort"
  std::string stop_string;            // the one that matched; else empty
  std::optional<TokenId> stop_token;  // one of the client's stop_token_ids
};

class Choice {
 public:
  // `params` and `assets` outlive the choice.
  static Result<Choice> Create(const GenerateParams& params, const ModelAssets& assets);

  // Items after the end are ignored: the worker may not have seen the cancel yet.
  ChoiceDelta Push(wire::GenerateItem item);

  bool finished() const { return finished_; }
  int64_t completion_tokens() const { return tokens_; }

 private:
  Choice(const GenerateParams& params, const ModelAssets& assets,
         std::optional<text::StopMatcher> stops);
  // Text of one token through the stop strings; true if one matched.
  bool Append(std::string_view text, ChoiceDelta& delta);
  void Finish(const wire::GenerateItem& item, ChoiceDelta& delta);

  const GenerateParams* params_;
  const ModelAssets* assets_;
  std::optional<text::Detokenizer> detokenizer_;  // absent without a tokenizer
  std::optional<text::StopMatcher> stops_;        // absent without stop strings
  int64_t tokens_ = 0;
  size_t text_offset_ = 0;
  bool finished_ = false;
};

// How one token is shown: its text, or "token_id:N" where the client asked for that.
std::string TokenName(const GenerateParams& params, const ModelAssets& assets, TokenId id);

}  // namespace tandem::frontend

#endif  // TANDEM_FRONTEND_CHOICE_H_
