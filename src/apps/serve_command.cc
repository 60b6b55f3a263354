#include "apps/serve_command.h"

#include <unistd.h>

#include <cstdio>

#include "apps/model_option.h"
#include "apps/process_options.h"
#include "apps/serve_session.h"
#include "base/log.h"
#include "rt/real_runtime.h"

namespace tandem::apps {
namespace {

void SayServing(const Served& served) {
  fmt::print("serving '{}' at {} ({})\n", served.model, served.url, served.shape);
  fmt::print(
      "try: curl {}/v1/chat/completions -H 'content-type: application/json' -d "
      "'{{\"model\":\"{}\",\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n",
      served.url, served.model);
  fmt::print("Ctrl-C stops it.\n");
  std::fflush(stdout);
}

int Fail(const Error& error) {
  fmt::print(stderr, "tandem serve: {}\n", error.message);
  return 1;
}

rt::Task<void> Serve(ServeSession& session, Status& outcome) {
  const auto served = co_await session.WaitServing();
  if (served) SayServing(*served);
  outcome = co_await session.WaitEnded();
}

}  // namespace

int ServeMain(const ParsedOptions& parsed) {
  SetLogName("serve");
  if (auto given = CheckModelGiven(parsed); !given) {
    fmt::print(stderr, "tandem serve: {}\n", given.error().message);
    return 2;
  }
  if (auto plan = MakeServePlan(parsed, {}, {}); !plan) return Fail(plan.error());
  auto model = ResolveModelForChildren(parsed);
  if (!model) return Fail(model.error());
  rt::RealRuntime runtime;
  rt::CancelSource stop;
  runtime.HandleSignals([&stop](int) {
    // Children that do not end in time are killed with this process.
    if (stop.Token().Cancelled()) _exit(130);
    LOG_INFO("stopping the children; a second signal kills them");
    stop.Cancel({Code::kCancelled, "told to stop", {}});
  });
  Status outcome;
  ServeSession session(runtime, parsed, *std::move(model), stop.Token());
  outcome = session.Start();
  if (outcome) runtime.RunTask(Serve(session, outcome));
  return outcome ? 0 : Fail(outcome.error());
}

}  // namespace tandem::apps
