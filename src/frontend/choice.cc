#include "frontend/choice.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace tandem::frontend {

Result<Choice> Choice::Create(const GenerateParams& params, const ModelAssets& assets) {
  std::optional<text::StopMatcher> stops;
  if (!params.stop.empty()) {
    TRY_ASSIGN(stops, text::StopMatcher::Create(params.stop, params.include_stop_str_in_output));
  }
  return Choice(params, assets, std::move(stops));
}

Choice::Choice(const GenerateParams& params, const ModelAssets& assets,
               std::optional<text::StopMatcher> stops)
    : params_(&params), assets_(&assets), stops_(std::move(stops)) {
  if (assets.tokenizer) detokenizer_.emplace(*assets.tokenizer, params.skip_special_tokens);
}

ChoiceDelta Choice::Push(wire::GenerateItem item) {
  ChoiceDelta delta;
  if (finished_) return delta;
  delta.text_offset = text_offset_;
  const bool with_logprobs = params_->logprobs >= 0 && item.logprobs.size() == item.tokens.size();
  for (size_t i = 0; i < item.tokens.size(); ++i) {
    const TokenId id = item.tokens[i];
    ++tokens_;
    delta.tokens.push_back(id);
    if (with_logprobs) {
      text_offset_ += text::CountCodePoints(TokenName(*params_, *assets_, id));
      delta.logprobs.push_back(std::move(item.logprobs[i]));
    }
    // The token that ended the choice has no text of its own, unless the client wants it.
    const bool ends = i + 1 == item.tokens.size() && item.finish == wire::FinishReason::kStop &&
                      item.stop_token == id;
    if (ends && !params_->include_stop_str_in_output) continue;
    if (detokenizer_ && Append(detokenizer_->Push(id), delta)) return delta;
  }
  if (item.finish != wire::FinishReason::kNone) Finish(item, delta);
  return delta;
}

bool Choice::Append(std::string_view text, ChoiceDelta& delta) {
  if (!stops_) {
    delta.text += text;
    return false;
  }
  auto out = stops_->Push(text, tokens_ > params_->min_tokens);
  delta.text += out.emit;
  if (!out.stop) return false;
  finished_ = true;
  delta.finished = true;
  delta.finish_reason = "stop";
  delta.stop_string = stops_->stops()[*out.stop];
  return true;
}

void Choice::Finish(const wire::GenerateItem& item, ChoiceDelta& delta) {
  if (detokenizer_ && Append(detokenizer_->Flush(), delta)) return;
  if (stops_) delta.text += stops_->Flush();
  finished_ = true;
  delta.finished = true;
  switch (item.finish) {
    case wire::FinishReason::kStop: {
      delta.finish_reason = "stop";
      const auto& asked = params_->stop_token_ids;
      if (item.stop_token && std::find(asked.begin(), asked.end(), *item.stop_token) != asked.end())
        delta.stop_token = item.stop_token;
      break;
    }
    case wire::FinishReason::kLength:
      delta.finish_reason = "length";
      break;
    case wire::FinishReason::kAbort:
    case wire::FinishReason::kError:
    case wire::FinishReason::kNone:
      delta.finish_reason = "abort";
      break;
  }
}

std::string TokenName(const GenerateParams& params, const ModelAssets& assets, TokenId id) {
  if (params.return_tokens_as_token_ids || !assets.tokenizer) return fmt::format("token_id:{}", id);
  return assets.tokenizer->Decode(std::span(&id, 1), false);
}

}  // namespace tandem::frontend
