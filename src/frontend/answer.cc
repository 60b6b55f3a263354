#include "frontend/answer.h"

#include <utility>

#include "frontend/prompt.h"
#include "wire/json_writer.h"

namespace tandem::frontend {
namespace {

// Bodies beyond this are parsed and tokenised on a helper thread: the loop must not stand still for
// more than about a millisecond.
constexpr size_t kLargeBody = size_t{64} << 10;

}  // namespace

struct Answer::Slot {
  size_t run = 0;
  size_t index = 0;  // in the answer
  Choice choice;
  ChoiceDelta whole;      // unary: everything so far
  std::string echo;       // goes out with the first text
  bool opened = false;    // streaming: its role chunk or prompt ids are out
  MonoTime last_token{};  // epoch: none yet
};

Answer::Answer(Services& services, Endpoint endpoint, net::HttpRequest& request,
               net::HttpResponder& responder, RequestContext& context)
    : services_(services),
      endpoint_(endpoint),
      request_(request),
      responder_(responder),
      context_(context) {
  ++services_.inflight;
}

Answer::~Answer() {
  --services_.inflight;
  if (!counted_) return;
  metrics_->inflight.Add(-1);
  metrics_->active.Add(-1);
  if (!first_token_) metrics_->queued.Add(-1);
  metrics_->output_tokens.Observe(static_cast<double>(completion_tokens_));
  metrics_->duration.Observe(ToSeconds(services_.runtime.Now() - context_.begin()));
}

const GenerateParams& Answer::params() const {
  if (const auto* chat = std::get_if<ChatRequest>(&parsed_)) return chat->params;
  return std::get<CompletionRequest>(parsed_).params;
}

rt::Task<Status> Answer::Run() {
  CO_TRY(context_.CheckContentType());
  CO_TRY(co_await Parse());
  CO_TRY(co_await Prepare());
  CO_TRY(stream_ ? co_await RunStream() : co_await RunWhole());
  metrics_->succeeded[ModelMetrics::Index(endpoint_, stream_)]->Add();
  co_return Status();
}

rt::Task<Status> Answer::Parse() {
  Status status;
  const auto parse = [&] {
    const auto keep = [&](auto result) {
      if (result)
        parsed_ = *std::move(result);
      else
        status = std::unexpected(std::move(result).error());
    };
    if (endpoint_ == Endpoint::kChat)
      keep(ParseChatRequest(request_.body));
    else
      keep(ParseCompletionRequest(request_.body));
  };
  if (request_.body.size() > kLargeBody)
    co_await services_.runtime.RunBlocking(parse);
  else
    parse();
  CO_TRY(std::move(status));
  stream_ = params().stream;
  if (!context_.id_given() && !params().request_id.empty()) context_.SetId(params().request_id);
  co_return Status();
}

rt::Task<Status> Answer::Prepare() {
  router::RouterTable& table = services_.router.table();
  CO_TRY_ASSIGN(const router::ModelGroup* group, table.Find(params().model));
  model_ = group->name;
  metrics_ = &services_.metrics.Of(model_);
  counted_ = true;
  metrics_->started[ModelMetrics::Index(endpoint_, stream_)]->Add();
  metrics_->inflight.Add(1);
  metrics_->active.Add(1);
  metrics_->queued.Add(1);
  assets_ = services_.assets.Find(group->card);
  if (assets_ == nullptr) {
    CO_TRY_ASSIGN(assets_, co_await services_.assets.Get(group->card, context_.token()));
  }

  Result<std::vector<std::vector<TokenId>>> prompts;
  const auto make = [&] { prompts = MakePrompts(*assets_); };
  const bool foreign_template =
      endpoint_ == Endpoint::kChat && !std::get<ChatRequest>(parsed_).prompt.chat_template.empty();
  if (request_.body.size() > kLargeBody || foreign_template)
    co_await services_.runtime.RunBlocking(make);
  else
    make();
  CO_TRY(prompts);
  // Looked up again: workers may have come or gone meanwhile.
  CO_TRY_ASSIGN(group, table.Find(model_));
  Status started = StartRuns(*std::move(prompts), *group);
  DropInput();
  co_return started;
}

// An answer may take minutes, and thousands may be under way: only the token ids stay.
void Answer::DropInput() {
  std::string().swap(request_.body);
  if (auto* chat = std::get_if<ChatRequest>(&parsed_))
    chat->prompt = {};
  else
    std::vector<PlainPrompt>().swap(std::get<CompletionRequest>(parsed_).prompts);
}

Result<std::vector<std::vector<TokenId>>> Answer::MakePrompts(const ModelAssets& assets) {
  std::vector<std::vector<TokenId>> prompts;
  if (const auto* chat = std::get_if<ChatRequest>(&parsed_)) {
    TRY_ASSIGN(const std::string text,
               RenderChat(assets, chat->prompt, RenderSettingsOf(services_)));
    TRY_ASSIGN(prompts.emplace_back(), EncodeText(assets, text, chat->params.add_special_tokens));
    return prompts;
  }
  const auto& completion = std::get<CompletionRequest>(parsed_);
  for (const PlainPrompt& prompt : completion.prompts) {
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      TRY_ASSIGN(prompts.emplace_back(),
                 EncodeText(assets, *text, completion.params.add_special_tokens));
    } else {
      const auto& ids = std::get<std::vector<TokenId>>(prompt);
      TRY(CheckIds(assets, ids, "prompt"));
      prompts.push_back(ids);
    }
  }
  return prompts;
}

Status Answer::StartRuns(std::vector<std::vector<TokenId>> prompts,
                         const router::ModelGroup& group) {
  runs_.emplace(services_.router, context_.deadline(), context_.token());
  for (size_t run = 0; run < prompts.size(); ++run) {
    const auto tokens = static_cast<int64_t>(prompts[run].size());
    TRY_ASSIGN(
        wire::GenerateRequest request,
        Resolve(params(), *assets_, tokens, group.max_model_len, services_.runtime.Random()));
    prompt_tokens_ += tokens;
    metrics_->input_tokens.Observe(static_cast<double>(tokens));
    metrics_->input_tokens_total.Add(static_cast<uint64_t>(tokens));
    std::string echo;
    if (params().echo) {
      const PlainPrompt& prompt = std::get<CompletionRequest>(parsed_).prompts[run];
      if (const auto* text = std::get_if<std::string>(&prompt))
        echo = *text;
      else if (assets_->tokenizer)
        echo = assets_->tokenizer->Decode(prompts[run], params().skip_special_tokens);
    }
    for (int32_t n = 0; n < request.n; ++n) {
      TRY_ASSIGN(Choice choice, Choice::Create(params(), *assets_));
      slots_.push_back({.run = run,
                        .index = slots_.size(),
                        .choice = std::move(choice),
                        .whole = {},
                        .echo = echo});
    }
    request.model = model_;
    request.trace_id = context_.id();
    request.prompt = std::move(prompts[run]);
    runs_->Add(std::move(request));
  }
  open_ = slots_.size();
  const std::string_view prefix = endpoint_ == Endpoint::kChat ? "chatcmpl-" : "cmpl-";
  writer_.emplace(endpoint_, std::string(prefix).append(context_.id()),
                  services_.runtime.UnixMillis() / 1000, model_, params(), *assets_);
  return {};
}

rt::Task<Status> Answer::RunWhole() {
  while (open_ > 0) {
    CO_TRY_ASSIGN(auto event, co_await runs_->Next());
    if (!event) break;
    Slot& slot = SlotOf(*event);
    ChoiceDelta delta = Accept(*std::move(event), slot);
    ChoiceDelta& whole = slot.whole;
    whole.text += delta.text;
    whole.tokens.insert(whole.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    for (wire::TokenLogprob& logprob : delta.logprobs) whole.logprobs.push_back(std::move(logprob));
    if (!delta.finished) continue;
    whole.finished = true;
    whole.finish_reason = delta.finish_reason;
    whole.stop_string = std::move(delta.stop_string);
    whole.stop_token = delta.stop_token;
  }
  std::vector<ChoiceAnswer> choices;
  for (Slot& slot : slots_) {
    if (!slot.echo.empty()) slot.whole.text.insert(0, slot.echo);
    choices.push_back({std::move(slot.whole), runs_->run(slot.run).prompt()});
  }
  std::string body = writer_->Whole(choices, CurrentUsage(), Nvext());
  CO_TRY(co_await context_.RespondJson(responder_, std::move(body)));
  // Lets the worker's stream end by itself instead of cancelling it.
  if (runs_->size() == 1) (void)co_await runs_->Next();
  co_return Status();
}

rt::Task<Status> Answer::RunStream() {
  std::string out;
  bool started = false;
  while (open_ > 0) {
    CO_TRY_ASSIGN(auto event, co_await runs_->Next());
    if (!event) break;
    if (!std::exchange(started, true)) {
      net::HttpHeaders headers = context_.Headers("text/event-stream; charset=utf-8");
      headers.Add("cache-control", "no-cache");
      headers.Add("x-accel-buffering", "no");
      CO_TRY(co_await responder_.StartStream(200, std::move(headers)));
    }
    Slot& slot = SlotOf(*event);
    const ChoiceDelta delta = Accept(*std::move(event), slot);
    out.clear();
    AppendEvents(out, slot, delta);
    if (!out.empty()) CO_TRY(co_await responder_.Write(out));
  }
  CO_TRY(co_await responder_.Finish());
  if (runs_->size() == 1) (void)co_await runs_->Next();
  co_return Status();
}

void Answer::AppendEvents(std::string& out, Slot& slot, const ChoiceDelta& delta) {
  const std::span<const TokenId> prompt = runs_->run(slot.run).prompt();
  const bool opening = !std::exchange(slot.opened, true);
  if (opening && endpoint_ == Endpoint::kChat) writer_->AppendRole(out, slot.index, prompt);
  const bool shows_tokens =
      !delta.tokens.empty() &&
      (params().return_token_ids || params().logprobs >= 0 || params().continuous_usage_stats);
  if (!delta.text.empty() || delta.finished || shows_tokens ||
      (opening && endpoint_ == Endpoint::kCompletion)) {
    const Usage usage = CurrentUsage();
    const bool shows_prompt = opening && endpoint_ == Endpoint::kCompletion;
    writer_->AppendDelta(out, slot.index, delta, shows_prompt ? prompt : std::span<const TokenId>(),
                         params().continuous_usage_stats ? &usage : nullptr,
                         open_ == 0 ? Nvext() : std::string());
  }
  if (open_ > 0) return;
  if (params().include_usage) writer_->AppendUsage(out, CurrentUsage());
  AnswerWriter::AppendDone(out);
}

Answer::Slot& Answer::SlotOf(const PromptRuns::Item& event) {
  return slots_[event.run * static_cast<size_t>(params().n) +
                static_cast<size_t>(event.item.choice)];
}

ChoiceDelta Answer::Accept(PromptRuns::Item event, Slot& slot) {
  NoteTokens(event.item, slot);
  if (event.item.choice == 0 && !slot.opened && slot.choice.completion_tokens() == 0)
    NoteFirst(event.item);
  const bool worker_ended = event.item.finish != wire::FinishReason::kNone;
  const int64_t before = slot.choice.completion_tokens();
  const bool was_open = !slot.choice.finished();
  ChoiceDelta delta = slot.choice.Push(std::move(event.item));
  const int64_t added = slot.choice.completion_tokens() - before;
  completion_tokens_ += added;
  metrics_->output_tokens_total.Add(static_cast<uint64_t>(added));
  if (stream_ && !slot.echo.empty()) delta.text.insert(0, std::exchange(slot.echo, {}));
  if (!was_open || !delta.finished) return delta;
  --open_;
  const bool all_of_run = [&] {
    for (const Slot& other : slots_)
      if (other.run == slot.run && !other.choice.finished()) return false;
    return true;
  }();
  if (all_of_run && !worker_ended) runs_->Stop(slot.run);
  return delta;
}

void Answer::NoteFirst(const wire::GenerateItem& item) {
  facts_.cached_tokens += item.cached_tokens;
  facts_.pulled_tokens += item.pulled_tokens;
  facts_.pulled_bytes += item.pulled_bytes;
  facts_.pull_seconds += item.pull_seconds;
  facts_.computed_prompt_tokens += item.computed_prompt_tokens;
  if (facts_.pull_transport.empty()) facts_.pull_transport = item.pull_transport;
  metrics_->cached_tokens.Observe(item.cached_tokens);
}

void Answer::NoteTokens(const wire::GenerateItem& item, Slot& slot) {
  if (item.tokens.empty()) return;
  const MonoTime now = services_.runtime.Now();
  if (!std::exchange(first_token_, true)) {
    first_token_time_ = now;
    metrics_->queued.Add(-1);
    metrics_->ttft.Observe(ToSeconds(now - context_.begin()));
  }
  if (slot.last_token != MonoTime{})
    metrics_->itl.Observe(ToSeconds(now - slot.last_token) /
                          static_cast<double>(item.tokens.size()));
  slot.last_token = now;
}

Usage Answer::CurrentUsage() const {
  return {.prompt_tokens = prompt_tokens_,
          .completion_tokens = completion_tokens_,
          .cached_tokens = facts_.cached_tokens};
}

std::string Answer::Nvext() const {
  const GenerateParams& asked = params();
  if (!asked.want_worker_id && !asked.want_timing && !asked.want_kv) return {};
  const router::GenerationFacts& facts = runs_->run(0).facts();
  std::string out;
  wire::JsonWriter json(out);
  const auto millis = [](Duration d) { return ToSeconds(d) * 1000; };
  json.BeginObject();
  if (asked.want_worker_id) {
    json.Key("worker_id").BeginObject();
    if (facts.prefill_worker != 0) json.Key("prefill_worker_id").Int(facts.prefill_worker);
    json.Key("decode_worker_id").Int(facts.serving_worker).EndObject();
  }
  if (asked.want_timing) {
    json.Key("timing").BeginObject();
    json.Key("prefill_time_ms").Double(millis(facts.prefill_time));
    json.Key("ttft_ms").Double(millis(first_token_time_ - context_.begin()));
    json.Key("total_time_ms").Double(millis(services_.runtime.Now() - context_.begin()));
    json.EndObject();
  }
  if (asked.want_kv) {
    json.Key("kv").BeginObject();
    json.Key("cached_tokens").Int(facts_.cached_tokens);
    json.Key("pulled_tokens").Int(facts_.pulled_tokens);
    json.Key("pulled_bytes").Int(facts_.pulled_bytes);
    json.Key("pull_seconds").Double(facts_.pull_seconds);
    json.Key("transport").String(facts_.pull_transport);
    json.Key("computed_prompt_tokens").Int(facts_.computed_prompt_tokens);
    json.Key("retries").Int(facts.retries);
    json.Key("fallback").String(facts.fallback).EndObject();
  }
  json.EndObject();
  return out;
}

}  // namespace tandem::frontend
