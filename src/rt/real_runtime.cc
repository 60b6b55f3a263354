#include "rt/real_runtime.h"

#include <sys/random.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "rt/helper_pool.h"
#include "rt/ready_queue.h"
#include "rt/real_network.h"
#include "rt/stream.h"
#include "rt/task_set.h"
#include "rt/timer_queue.h"

namespace tandem::rt {

namespace asio = boost::asio;

struct RealRuntime::Impl {
  Impl(RealRuntime& owner, const RealRuntimeOptions& options)
      : wake_up(io),
        network(internal::MakeRealNetwork(owner, io)),
        helpers(std::make_unique<HelperPool>(owner, options.helper_threads)) {}

  void RunLoop();
  void ArmTimer();
  void AwaitSignal();

  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running{io.get_executor()};
  asio::steady_timer wake_up;
  MonoTime wake_up_at = kNever;
  TimerQueue timers;
  ReadyQueue ready;
  std::atomic<bool> stopped = false;
  std::atomic<std::thread::id> loop_thread{};
  std::array<uint64_t, 64> random{};
  size_t random_left = 0;
  std::optional<asio::signal_set> signals;
  std::function<void(int)> on_signal;
  std::unique_ptr<Network> network;
  std::unique_ptr<HelperPool> helpers;
  TaskSet tasks;  // last: its tasks use everything above
};

namespace {

constexpr int kTurnsBetweenPolls = 8;

MonoTime SteadyNow() {
  return MonoTime(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace

RealRuntime::RealRuntime(RealRuntimeOptions options) {
  // Writes to a connection that the peer has closed are errors, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  impl_ = std::make_unique<Impl>(*this, options);
}

RealRuntime::~RealRuntime() {
  impl_->tasks.DestroyAll();
  impl_->helpers.reset();  // its threads may Post until they are joined
}

void RealRuntime::Impl::ArmTimer() {
  const MonoTime earliest = timers.Earliest();
  // A wake-up that comes too early does no harm, so later deadlines need no new system call.
  if (earliest >= wake_up_at) return;
  wake_up_at = earliest;
  wake_up.expires_at(std::chrono::steady_clock::time_point(earliest.time_since_epoch()));
  wake_up.async_wait([this](const boost::system::error_code& error) {
    if (!error) wake_up_at = kNever;
  });
}

void RealRuntime::Impl::RunLoop() {
  loop_thread = std::this_thread::get_id();
  while (!stopped) {
    if (timers.Earliest() != kNever) {
      const MonoTime now = SteadyNow();
      while (auto due = timers.PopDue(now)) (*due)();
    }
    // Looking at the sockets is a system call, so chains of short wake-ups run without it; work
    // that never ends still lets the sockets have their turn.
    for (int turn = 0; turn < kTurnsBetweenPolls && !ready.Empty(); ++turn)
      for (size_t n = ready.Size(); n > 0; --n) ready.RunFront();
    if (!ready.Empty() && !stopped) {
      io.poll();
      continue;
    }
    if (stopped) break;
    ArmTimer();
    io.run_one();
  }
  stopped = false;
  loop_thread = std::thread::id();
}

void RealRuntime::Run() { impl_->RunLoop(); }

void RealRuntime::Stop() {
  impl_->stopped = true;
  asio::post(impl_->io, [] {});
}

namespace {

Task<void> RunThenStop(Task<void> task, RealRuntime* runtime, std::shared_ptr<bool> ended) {
  co_await std::move(task);
  *ended = true;
  runtime->Stop();
}

}  // namespace

bool RealRuntime::RunTask(Task<void> task) {
  const auto ended = std::make_shared<bool>(false);
  Spawn(RunThenStop(std::move(task), this, ended));
  Run();
  return *ended;
}

void RealRuntime::HandleSignals(std::function<void(int)> callback) {
  impl_->on_signal = std::move(callback);
  if (!impl_->signals) impl_->signals.emplace(impl_->io, SIGTERM, SIGINT);
  impl_->AwaitSignal();
}

void RealRuntime::Impl::AwaitSignal() {
  signals->async_wait([this](const boost::system::error_code& error, int signal_number) {
    if (error) return;
    on_signal(signal_number);
    AwaitSignal();
  });
}

MonoTime RealRuntime::Now() const { return SteadyNow(); }

int64_t RealRuntime::UnixMillis() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t RealRuntime::Random() {
  if (impl_->random_left == 0) {
    const size_t size = sizeof(impl_->random);
    // Reads of up to 256 bytes are never short or interrupted; ask in such pieces.
    constexpr size_t kPiece = 256;
    for (size_t at = 0; at < size; at += kPiece)
      CHECK(getrandom(reinterpret_cast<char*>(impl_->random.data()) + at, kPiece, 0) == kPiece);
    impl_->random_left = impl_->random.size();
  }
  return impl_->random[--impl_->random_left];
}

Network& RealRuntime::network() { return *impl_->network; }

void RealRuntime::Post(std::function<void()> work) {
  if (impl_->loop_thread.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    impl_->ready.Push(std::move(work));
  } else {
    asio::post(impl_->io, std::move(work));
  }
}

void RealRuntime::Schedule(std::coroutine_handle<> coroutine) { impl_->ready.Push(coroutine); }

void RealRuntime::Unschedule(std::coroutine_handle<> coroutine) { impl_->ready.Remove(coroutine); }

std::unique_ptr<Timer> RealRuntime::RunAt(MonoTime when, std::function<void()> work) {
  return impl_->timers.Add(when, std::move(work));
}

Task<void> RealRuntime::RunBlocking(std::function<void()> work) {
  return impl_->helpers->Run(std::move(work));
}

void RealRuntime::Spawn(Task<void> task) { impl_->tasks.Start(*this, std::move(task)); }

}  // namespace tandem::rt
