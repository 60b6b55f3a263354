#include "apps/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "apps/status_channel.h"
#include "base/log.h"

namespace tandem::apps {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(10);
constexpr Duration kFirstWait = std::chrono::milliseconds(100);
constexpr Duration kLongestWait = std::chrono::seconds(10);
constexpr Duration kLongLife = std::chrono::minutes(1);
constexpr size_t kLastWords = 20;

}  // namespace

struct Supervisor::Entry {
  SupervisedChild child;
  std::unique_ptr<ChildProcess> process;
  MonoTime started;
  MonoTime heard;  // its latest line on the status channel
  MonoTime restart_at = kNever;
  Backoff backoff;
  std::deque<std::string> last_words;  // its latest log lines
};

Duration Backoff::Next(Duration lived) {
  if (lived >= kLongLife) deaths_ = 0;
  const Duration wait = std::min(kLongestWait, kFirstWait * (1 << std::min(deaths_, 10)));
  ++deaths_;
  return wait;
}

Supervisor::Supervisor(rt::Runtime& runtime, std::function<void(const std::string&)> on_log,
                       std::function<void()> on_change, Duration longest_silence)
    : runtime_(runtime),
      on_log_(std::move(on_log)),
      on_change_(std::move(on_change)),
      longest_silence_(longest_silence) {}

Supervisor::~Supervisor() = default;

SupervisedChild& Supervisor::Add(std::string name, ChildSpec spec) {
  auto& entry = entries_.emplace_back(std::make_unique<Entry>());
  entry->child.name = std::move(name);
  entry->child.spec = std::move(spec);
  return entry->child;
}

bool Supervisor::AllReady() const {
  return std::ranges::all_of(entries_, [](const auto& entry) { return entry->child.ready; });
}

rt::Task<Status> Supervisor::Run(rt::CancelToken stop, Duration grace) {
  Status ended;
  for (const auto& entry : entries_)
    if (ended) ended = StartChild(*entry);
  while (ended && !stop.Cancelled()) {
    for (const auto& entry : entries_)
      if (ended) ended = Step(*entry);
    if (ended) (void)co_await runtime_.Sleep(kPoll, stop);
  }
  const std::span entries(entries_);
  if (entries.empty()) co_return ended;
  co_await Stop(entries.first(1), grace);
  co_await Stop(entries.subspan(1), grace);
  co_return ended;
}

Status Supervisor::StartChild(Entry& entry) {
  TRY_ASSIGN(entry.process, ChildProcess::Start(entry.child.spec));
  entry.started = runtime_.Now();
  entry.restart_at = kNever;
  entry.last_words.clear();
  entry.child.ready = false;
  entry.child.load_fraction = 0;
  return {};
}

Status Supervisor::Step(Entry& entry) {
  if (entry.process) {
    // The exit first: what the child wrote before it is then certainly in the pipe.
    const auto exit_status = entry.process->ExitStatus();
    ReadPipes(entry);
    if (exit_status) return OnExit(entry, *exit_status);
    KillIfSilent(entry);
    return {};
  }
  if (runtime_.Now() < entry.restart_at) return {};
  LOG_INFO("{}: starting again", entry.child.name);
  ++entry.child.restarts;
  if (auto started = StartChild(entry); !started) {
    LOG_ERROR("{}: {}", entry.child.name, started.error().message);
    entry.restart_at = runtime_.Now() + entry.backoff.Next(Duration::zero());
  }
  return {};
}

// Its pipe has just been read, so what it wrote while this process itself stood still counts. While
// it loads its model it may be silent.
void Supervisor::KillIfSilent(Entry& entry) {
  const MonoTime now = runtime_.Now();
  if (!entry.child.ready || now - entry.heard < longest_silence_) return;
  LOG_WARN("{} has given no sign of life for {} s, so it hangs: killing it", entry.child.name,
           ToSeconds(longest_silence_));
  entry.heard = now;
  entry.process->Signal(SIGKILL);
}

Status Supervisor::OnExit(Entry& entry, int exit_status) {
  const Duration lived = runtime_.Now() - entry.started;
  entry.process.reset();
  entry.child.ready = false;
  if (!entry.child.ever_ready) {
    std::string words;
    for (const std::string& line : entry.last_words) words += "\n  " + line;
    return Err(Code::kInternal, "{} ended before it could serve ({}). Its last lines:{}",
               entry.child.name, DescribeExit(exit_status), words.empty() ? " none" : words);
  }
  const Duration wait = entry.backoff.Next(lived);
  entry.restart_at = runtime_.Now() + wait;
  LOG_WARN("{} died with {}; starting it again in {} ms", entry.child.name,
           DescribeExit(exit_status), ToMillis(wait));
  on_change_();
  return {};
}

void Supervisor::ReadPipes(Entry& entry) {
  for (std::string& line : entry.process->log().Read()) {
    on_log_(line);
    entry.last_words.push_back(std::move(line));
    if (entry.last_words.size() > kLastWords) entry.last_words.pop_front();
  }
  for (const std::string& line : entry.process->status().Read()) {
    entry.heard = runtime_.Now();
    const auto status = ParseStatusLine(line);
    if (!status || status->alive) continue;
    entry.child.load_fraction = status->fraction;
    if (status->ready) {
      entry.child.ready = entry.child.ever_ready = true;
      entry.child.address = status->address;
    }
    on_change_();
  }
}

rt::Task<void> Supervisor::Stop(std::span<const std::unique_ptr<Entry>> entries, Duration grace) {
  const MonoTime deadline = runtime_.Now() + grace;
  for (const auto& entry : entries)
    if (entry->process) entry->process->Signal(SIGTERM);
  while (runtime_.Now() < deadline) {
    bool any = false;
    for (const auto& entry : entries) {
      if (!entry->process) continue;
      const bool ended = entry->process->ExitStatus().has_value();
      ReadPipes(*entry);
      if (ended) entry->process.reset();
      any = any || !ended;
    }
    if (!any) co_return;
    co_await runtime_.Sleep(kPoll);
  }
  for (const auto& entry : entries) {
    if (!entry->process) continue;
    LOG_WARN("{} did not end within {} s of SIGTERM: killing it", entry->child.name,
             ToSeconds(grace));
    entry->process.reset();
  }
}

}  // namespace tandem::apps
