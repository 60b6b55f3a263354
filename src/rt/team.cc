#include "rt/team.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/check.h"
#include "rt/lateness_governor.h"

namespace tandem::rt {
namespace {

// A parked thread needs some time to wake; only what goes beyond is held against its core.
constexpr Duration kUsualWakeUp = std::chrono::microseconds(200);

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

Duration ClockNow(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void PinThisThread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);  // if refused, the thread runs anywhere: slower, right
}

}  // namespace

struct ThreadTeam::Impl {
  explicit Impl(const ThreadTeamOptions& given);
  ~Impl();
  void Run(FunctionRef<void(TeamMember&)> work);

  // What a member says about its part of the latest region.
  struct Member {
    alignas(64) std::atomic<uint32_t> go{0};  // the number of the region to run
    Duration late{0};                         // from the region's start to its own
    Duration took{0};
    Duration on_cpu{0};
    std::thread thread;
  };

  void ThreadMain(int index);
  uint32_t AwaitRegion(Member& member, uint32_t last);
  void RunMember(int index);
  void RunRegion(int count);
  void ReportRegion(int count, Duration took);

  ThreadTeamOptions options;
  const std::vector<int> cpus = AllowedCpus();  // before any thread is pinned
  LatenessGovernor governor;
  std::vector<std::unique_ptr<Member>> members;  // 0 is the caller
  int last_size = 0;
  bool caller_pinned = false;

  // Written by the caller before it wakes the members of a region.
  FunctionRef<void(TeamMember&)>* region = nullptr;
  int region_count = 0;
  bool measured = false;
  Duration region_start{0};
  uint32_t region_number = 0;
  std::atomic<bool> stopping{false};
  std::atomic<bool> park_at_once{false};
  alignas(64) std::atomic<uint32_t> arrivals{0};
  alignas(64) std::atomic<int> done{0};
};

namespace {

int ThreadsOf(const ThreadTeamOptions& options) {
  CHECK(options.max_threads >= 1 && options.cpu_share > 0);
  if (options.board != nullptr) return std::min(options.max_threads, options.board->cores());
  const auto share = static_cast<int>(AvailableCores() * std::min(options.cpu_share, 1.0));
  return options.cpu_share < 1.0 ? std::clamp(share, 1, options.max_threads) : options.max_threads;
}

}  // namespace

ThreadTeam::Impl::Impl(const ThreadTeamOptions& given)
    : options(given), governor(ThreadsOf(given)) {
  const int threads = ThreadsOf(given);
  for (int i = 0; i < threads; ++i) members.push_back(std::make_unique<Member>());
  for (int i = 1; i < threads; ++i)
    members[static_cast<size_t>(i)]->thread = std::thread([this, i] { ThreadMain(i); });
}

ThreadTeam::Impl::~Impl() {
  stopping = true;
  ++region_number;
  for (size_t i = 1; i < members.size(); ++i) {
    members[i]->go.store(region_number);
    members[i]->go.notify_one();
  }
  for (size_t i = 1; i < members.size(); ++i) members[i]->thread.join();
}

void ThreadTeam::Impl::ThreadMain(int index) {
  FlushDenormalsOnThisThread();
  if (options.pin_threads) PinThisThread(cpus[static_cast<size_t>(index) % cpus.size()]);
  Member& member = *members[static_cast<size_t>(index)];
  for (uint32_t last = 0;;) {
    last = AwaitRegion(member, last);
    if (stopping) return;
    RunMember(index);
    done.fetch_add(1, std::memory_order_release);
  }
}

uint32_t ThreadTeam::Impl::AwaitRegion(Member& member, uint32_t last) {
  const Duration until = ClockNow(CLOCK_MONOTONIC) + options.spin;
  uint32_t now;
  while ((now = member.go.load(std::memory_order_acquire)) == last) {
    for (int i = 0; i < 32 && member.go.load(std::memory_order_relaxed) == last; ++i) Pause();
    if (park_at_once.load(std::memory_order_relaxed) || ClockNow(CLOCK_MONOTONIC) >= until)
      member.go.wait(last, std::memory_order_acquire);
  }
  return now;
}

void ThreadTeam::Impl::RunMember(int index) {
  TeamMember place(index, region_count, &arrivals);
  if (!measured) {
    (*region)(place);
    return;
  }
  Member& member = *members[static_cast<size_t>(index)];
  const Duration start = ClockNow(CLOCK_MONOTONIC);
  const Duration cpu_start = ClockNow(CLOCK_THREAD_CPUTIME_ID);
  (*region)(place);
  member.on_cpu = ClockNow(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
  member.took = ClockNow(CLOCK_MONOTONIC) - start;
  member.late = start - region_start;
}

void ThreadTeam::Impl::RunRegion(int count) {
  region_count = count;
  region_start = ClockNow(CLOCK_MONOTONIC);
  arrivals.store(0, std::memory_order_relaxed);
  done.store(0, std::memory_order_relaxed);
  ++region_number;
  for (int i = 1; i < count; ++i) {
    auto& go = members[static_cast<size_t>(i)]->go;
    go.store(region_number, std::memory_order_release);
    go.notify_one();
  }
  RunMember(0);
  for (int spins = 0; done.load(std::memory_order_acquire) < count - 1; ++spins) {
    constexpr int kSpinsBeforeYield = 2000;
    if (spins > kSpinsBeforeYield) {
      sched_yield();
    } else {
      Pause();
    }
  }
}

void ThreadTeam::Impl::ReportRegion(int count, Duration took) {
  Duration most{0};
  int late_members = 0;
  for (int i = 0; i < count; ++i) {
    const Member& member = *members[static_cast<size_t>(i)];
    const Duration lost = std::max(Duration(0), member.took - member.on_cpu) +
                          std::max(Duration(0), member.late - kUsualWakeUp);
    most = std::max(most, lost);
    if (LatenessGovernor::TooLong(count, took, lost)) ++late_members;
  }
  governor.Report(MonoTime(region_start + took), count, took, most, late_members);
}

void ThreadTeam::Impl::Run(FunctionRef<void(TeamMember&)> work) {
  FlushDenormalsOnThisThread();
  if (options.pin_threads && !caller_pinned) PinThisThread(cpus.front());
  caller_pinned = true;
  int count = static_cast<int>(members.size());
  if (options.adaptive && count > 1) count = governor.Limit(MonoTime(ClockNow(CLOCK_MONOTONIC)));
  bool contended = count < static_cast<int>(members.size());
  if (options.board != nullptr) {
    const int wanted = count;
    count = options.board->Acquire(wanted);
    contended = contended || count < wanted;
  }
  // Where cores are scarce, a spinning thread takes time from somebody who computes.
  park_at_once.store(contended, std::memory_order_relaxed);
  last_size = count;
  region = &work;
  measured = options.adaptive && count > 1;
  if (count == 1) {
    TeamMember alone(0, 1, nullptr);
    work(alone);
  } else {
    RunRegion(count);
    if (measured) ReportRegion(count, ClockNow(CLOCK_MONOTONIC) - region_start);
  }
  if (options.board != nullptr) options.board->Release();
}

ThreadTeam::ThreadTeam(ThreadTeamOptions options) : impl_(std::make_unique<Impl>(options)) {}
ThreadTeam::~ThreadTeam() = default;
int ThreadTeam::MaxSize() const { return static_cast<int>(impl_->members.size()); }
int ThreadTeam::LastSize() const { return impl_->last_size; }
void ThreadTeam::Run(FunctionRef<void(TeamMember&)> work) { impl_->Run(work); }

}  // namespace tandem::rt
