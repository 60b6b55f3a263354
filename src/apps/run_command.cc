#include "apps/run_command.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "apps/chat.h"
#include "apps/model_option.h"
#include "apps/process_options.h"
#include "apps/serve_session.h"
#include "base/log.h"
#include "rt/real_runtime.h"

namespace tandem::apps {
namespace {

constexpr Duration kInputPoll = std::chrono::milliseconds(20);
constexpr size_t kMaxLineBytes = 1 << 20;

// Lines of stdin, without blocking the loop that also watches the children.
class LineInput {
 public:
  explicit LineInput(rt::Runtime& runtime) : runtime_(runtime) {}

  // Nothing at the end of the input or when cancelled.
  rt::Task<std::optional<std::string>> Next(rt::CancelToken cancel) {
    while (!cancel.Cancelled()) {
      const size_t end = buffer_.find('\n');
      if (end != std::string::npos || (ended_ && !buffer_.empty())) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end == std::string::npos ? buffer_.size() : end + 1);
        co_return line;
      }
      if (ended_ || buffer_.size() > kMaxLineBytes) break;
      pollfd input = {STDIN_FILENO, POLLIN, 0};
      if (poll(&input, 1, 0) > 0)
        Fill();
      else
        (void)co_await runtime_.Sleep(kInputPoll, cancel);
    }
    co_return std::nullopt;
  }

 private:
  void Fill() {
    std::array<char, 4096> bytes;
    const ssize_t n = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n > 0) buffer_.append(bytes.data(), static_cast<size_t>(n));
    ended_ = n <= 0;
  }

  rt::Runtime& runtime_;
  std::string buffer_;
  bool ended_ = false;
};

class ChatLoop {
 public:
  ChatLoop(rt::Runtime& runtime, const ParsedOptions& parsed)
      : runtime_(runtime), terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
    options_.system = parsed.Text("system");
    options_.max_tokens = parsed.Int("max-tokens");
    options_.temperature = parsed.Number("temperature");
    if (parsed.IsSet("seed")) options_.seed = parsed.Int("seed");
  }

  // Ctrl-C ends the answer that is being written, else the program.
  void OnSignal() {
    if (stop_.Token().Cancelled()) _exit(130);
    if (answering_)
      answering_->Cancel({Code::kCancelled, "interrupted", {}});
    else
      stop_.Cancel({Code::kCancelled, "told to stop", {}});
  }

  rt::CancelToken stop() const { return stop_.Token(); }

  rt::Task<void> Run(ServeSession& session, Status& outcome) {
    auto served = co_await session.WaitServing();
    if (served) {
      options_.model = served->model;
      co_await Talk(served->address);
      stop_.Cancel({Code::kCancelled, "the conversation ended", {}});
    }
    outcome = co_await session.WaitEnded();
    if (outcome && !served) outcome = std::unexpected(served.error());
  }

  bool any_failed() const { return any_failed_; }

 private:
  rt::Task<void> Talk(rt::Address address) {
    if (terminal_)
      fmt::print("{}: ask something. Ctrl-C stops an answer, Ctrl-D ends.\n", options_.model);
    Chat chat(runtime_, address, options_);
    LineInput input(runtime_);
    while (true) {
      Say(terminal_ ? "> " : "");
      auto line = co_await input.Next(stop_.Token());
      if (!line) break;
      if (line->empty()) continue;
      co_await Answer(chat, *std::move(line));
    }
    if (terminal_) Say("\n");
  }

  rt::Task<void> Answer(Chat& chat, std::string line) {
    answering_.emplace(stop_.Token());
    const rt::CancelToken cancel = answering_->Token();
    const Status answered = co_await chat.Ask(std::move(line), cancel, Say);
    Say("\n");
    const bool interrupted = cancel.Cancelled();
    answering_.reset();
    if (answered || interrupted) co_return;
    any_failed_ = true;
    fmt::print(stderr, "error: {}\n", answered.error().message);
  }

  static void Say(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  rt::Runtime& runtime_;
  bool terminal_;
  bool any_failed_ = false;
  ChatOptions options_;
  rt::CancelSource stop_;
  std::optional<rt::CancelSource> answering_;
};

}  // namespace

int RunMain(const ParsedOptions& parsed) {
  SetLogName("run");
  if (auto given = CheckModelGiven(parsed); !given) {
    fmt::print(stderr, "tandem run: {}\n", given.error().message);
    return 2;
  }
  // The conversation is what the terminal is for: children speak up only about trouble.
  if (std::getenv("TANDEM_LOG") == nullptr && std::getenv("DYN_LOG") == nullptr) {
    setenv("TANDEM_LOG", "warn", 1);
    SetLogLevel(LogLevel::kWarn);
  }
  auto model = ResolveModelForChildren(parsed);
  if (!model) {
    fmt::print(stderr, "tandem run: {}\n", model.error().message);
    return 1;
  }
  rt::RealRuntime runtime;
  ChatLoop loop(runtime, parsed);
  runtime.HandleSignals([&loop](int) { loop.OnSignal(); });
  ServeSession session(runtime, parsed, *std::move(model), loop.stop());
  Status outcome = session.Start();
  if (outcome) runtime.RunTask(loop.Run(session, outcome));
  if (!outcome) {
    fmt::print(stderr, "tandem run: {}\n", outcome.error().message);
    return 1;
  }
  return loop.any_failed() ? 1 : 0;
}

}  // namespace tandem::apps
