#include "engine/generate_call.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>

#include "rt/event.h"
#include "wire/messages.h"

namespace tandem::engine {
namespace {

struct Answer {
  explicit Answer(rt::Runtime& runtime) : news(runtime) {}
  std::vector<wire::GenerateItem> items;
  std::optional<Status> end;
  rt::Signal news;
};

template <class T>
void Append(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void Enqueue(std::vector<wire::GenerateItem>& queue, wire::GenerateItem item) {
  const auto last = std::find_if(queue.rbegin(), queue.rend(),
                                 [&](const auto& queued) { return queued.choice == item.choice; });
  if (last == queue.rend()) return queue.push_back(std::move(item));
  // The first item says how the prompt came about; later ones only add tokens and perhaps the end.
  Append(last->tokens, std::move(item.tokens));
  Append(last->logprobs, std::move(item.logprobs));
  last->finish = item.finish;
  last->stop_token = item.stop_token;
  if (!item.kv_transfer_params.empty())
    last->kv_transfer_params = std::move(item.kv_transfer_params);
}

rt::Task<Status> ServeGenerate(rt::Runtime& runtime, Engine& engine, net::RpcCall& call,
                               CallBytes& bytes) {
  bytes.request = call.payload().size();
  CO_TRY_ASSIGN(auto request, wire::DecodeGenerateRequest(call.payload()));
  // Shared: the call's task may be destroyed (server torn down) before the engine lets go of its
  // sink.
  const auto answer = std::make_shared<Answer>(runtime);
  EngineSink sink;
  sink.on_item = [answer](wire::GenerateItem item) {
    Enqueue(answer->items, std::move(item));
    answer->news.Notify();
  };
  sink.on_done = [answer](Status status) {
    answer->end = std::move(status);
    answer->news.Notify();
  };
  engine.Submit(std::move(request), call.deadline(), call.token(), std::move(sink));
  while (true) {
    for (const wire::GenerateItem& item : std::exchange(answer->items, {})) {
      wire::Bytes encoded = wire::Encode(item);
      bytes.response += encoded.size();
      CO_TRY(co_await call.Send(std::move(encoded)));
    }
    if (!answer->items.empty()) continue;
    if (answer->end) co_return *answer->end;
    CO_TRY(co_await answer->news.Wait());
  }
}

}  // namespace tandem::engine
