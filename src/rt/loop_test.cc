// Tasks, timers and waits, on both runtimes.
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "rt/channel.h"
#include "rt/event.h"
#include "rt/moving_timer.h"
#include "rt/promise.h"
#include "rt/scope.h"
#include "rt/test_loops.h"
#include "rt/timer_queue.h"
#include "rt/yield.h"

namespace tandem::rt {
namespace {

using std::chrono::milliseconds;

class Loop : public LoopTest {};
TANDEM_BOTH_LOOPS(Loop);

Task<int> Add(int a, int b) { co_return a + b; }

Task<void> SumInto(int64_t* sum) {
  for (int i = 0; i < 100000; ++i) *sum += co_await Add(i, 1);
}

TEST_P(Loop, TasksReturnValuesWithoutGrowingTheStack) {
  int64_t sum = 0;
  Run(SumInto(&sum));
  EXPECT_EQ(sum, 99999LL * 100000 / 2 + 100000);
}

Task<void> SleepAndNote(Runtime* runtime, int ms, std::string* order) {
  EXPECT_TRUE(co_await runtime->Sleep(milliseconds(ms)));
  *order += std::to_string(ms);
}

Task<void> SleepInParallel(Runtime* runtime, std::string* order) {
  TaskScope scope(*runtime);
  for (const int ms : {30, 10, 20}) scope.Spawn(SleepAndNote(runtime, ms, order));
  co_await scope.Join();
}

TEST_P(Loop, SleepsEndInOrderOfTime) {
  std::string order;
  const MonoTime start = runtime().Now();
  Run(SleepInParallel(&runtime(), &order));
  EXPECT_EQ(order, "102030");
  EXPECT_GE(runtime().Now() - start, milliseconds(30));
}

Task<void> MoveTimer(Runtime* runtime, std::string* fired) {
  const MonoTime start = runtime->Now();
  MovingTimer timer(*runtime, [&] {
    const bool late = runtime->Now() - start >= milliseconds(40);
    *fired += late ? "L" : "e";
  });
  timer.Set(start + milliseconds(30));
  timer.Set(start + milliseconds(10));  // earlier
  timer.Set(start + milliseconds(40));  // and later again
  co_await runtime->Sleep(milliseconds(60));
  EXPECT_EQ(*fired, "L");
  timer.SetIn(milliseconds(5));
  timer.Stop();
  co_await runtime->Sleep(milliseconds(15));
  EXPECT_EQ(*fired, "L");
  timer.SetIn(milliseconds(5));
  co_await runtime->Sleep(milliseconds(15));
  EXPECT_EQ(*fired, "LL");
  timer.SetIn(milliseconds(5));  // ends with the timer
}

TEST_P(Loop, AMovingTimerFiresAtItsLatestTime) {
  std::string fired;
  Run(MoveTimer(&runtime(), &fired));
}

TEST(TimerQueue, RunsByTimeThenByOrderWhateverLeaves) {
  TimerQueue queue;
  uint64_t draw = 1;
  const auto next = [&draw] { return draw = draw * 6364136223846793005 + 1442695040888963407; };
  std::multimap<std::pair<MonoTime, int>, std::unique_ptr<Timer>> left;
  std::vector<int> ran;
  for (int i = 0; i < 2000; ++i) {
    const MonoTime when{milliseconds((next() >> 33) % 50)};
    left.emplace(std::pair(when, i), queue.Add(when, [&ran, i] { ran.push_back(i); }));
    if ((next() >> 33) % 3 == 0)
      left.erase(std::next(left.begin(), static_cast<int>((next() >> 33) % left.size())));
  }
  std::vector<int> expected;
  for (const auto& [key, timer] : left) expected.push_back(key.second);
  while (auto work = queue.PopDue(MonoTime(milliseconds(50)))) (*work)();
  EXPECT_EQ(ran, expected);
  EXPECT_EQ(queue.Earliest(), kNever);
}

Task<void> SleepCancelled(Runtime* runtime, Status* result) {
  CancelSource source;
  const auto timer = runtime->RunAt(runtime->Now() + milliseconds(5), [&source] {
    source.Cancel({Code::kDeadlineExceeded, "enough", {}});
  });
  *result = co_await runtime->Sleep(std::chrono::hours(10), source.Token());
}

TEST_P(Loop, ASleepEndsWhenCancelled) {
  Status result;
  Run(SleepCancelled(&runtime(), &result));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kDeadlineExceeded);
}

Task<void> Produce(Channel<int>* channel, int count) {
  for (int i = 0; i < count; ++i) {
    EXPECT_LE(channel->Size(), channel->Capacity());
    EXPECT_TRUE(co_await channel->Push(i));
  }
  channel->Close();
}

Task<void> Consume(Runtime* runtime, int* sum) {
  Channel<int> channel(*runtime, 3);
  TaskScope scope(*runtime);
  scope.Spawn(Produce(&channel, 100));
  for (;;) {
    const auto item = co_await channel.Pop();
    EXPECT_TRUE(item);
    if (!item || !item->has_value()) break;
    *sum += **item;
  }
  EXPECT_FALSE(co_await channel.Push(1));
  co_await scope.Join();
}

TEST_P(Loop, AChannelIsBoundedAndDrainsAfterClose) {
  int sum = 0;
  Run(Consume(&runtime(), &sum));
  EXPECT_EQ(sum, 4950);
}

Task<void> WaitFor(Signal* signal, int* passed) {
  EXPECT_TRUE(co_await signal->Wait());
  ++*passed;
}

Task<void> HandOn(Runtime* runtime, int* passed) {
  Signal signal(*runtime);
  TaskScope others(*runtime);
  {
    TaskScope first(*runtime);
    first.Spawn(WaitFor(&signal, passed));
    co_await Yield(*runtime);
    co_await Yield(*runtime);
    others.Spawn(WaitFor(&signal, passed));
    co_await Yield(*runtime);
    co_await Yield(*runtime);
    signal.Notify();
    // `first` is destroyed here, woken but not yet run.
  }
  co_await others.Join();
}

TEST_P(Loop, AWakeUpOfADestroyedWaiterGoesToTheNext) {
  int passed = 0;
  Run(HandOn(&runtime(), &passed));
  EXPECT_EQ(passed, 1);
}

Task<void> Answer(Runtime* runtime, OneShot<std::string>* promise) {
  co_await runtime->Sleep(milliseconds(1));
  EXPECT_TRUE(promise->Set("first"));
  EXPECT_FALSE(promise->Set("second"));
}

Task<void> Ask(Runtime* runtime, std::string* got) {
  OneShot<std::string> promise(*runtime);
  TaskScope scope(*runtime);
  scope.Spawn(Answer(runtime, &promise));
  CancelSource impatient;
  impatient.Cancel();
  EXPECT_FALSE(co_await promise.Wait(impatient.Token()));
  auto value = co_await promise.Wait();
  EXPECT_TRUE(value);
  *got = value.value_or("none");
  co_await scope.Join();
}

TEST_P(Loop, AOneShotGivesItsFirstValue) {
  std::string got;
  Run(Ask(&runtime(), &got));
  EXPECT_EQ(got, "first");
}

struct CountedLife {
  explicit CountedLife(int* alive) : alive_(alive) { ++*alive_; }
  ~CountedLife() { --*alive_; }
  CountedLife(const CountedLife&) = delete;
  CountedLife& operator=(const CountedLife&) = delete;
  int* alive_;
};

Task<void> HoldForever(Runtime* runtime, int* alive) {
  const CountedLife life(alive);
  Event never(*runtime);
  EXPECT_TRUE(co_await never.Wait());
}

Task<void> SpawnAndAbandon(Runtime* runtime, int* alive) {
  TaskScope scope(*runtime);
  for (int i = 0; i < 5; ++i) scope.Spawn(HoldForever(runtime, alive));
  co_await runtime->Sleep(milliseconds(1));
  EXPECT_EQ(*alive, 5);
}

TEST_P(Loop, AScopeTakesItsTasksWithIt) {
  int alive = 0;
  Run(SpawnAndAbandon(&runtime(), &alive));
  EXPECT_EQ(alive, 0);
}

Task<void> UntilCancelled(CancelToken token, Runtime* runtime, int* ended) {
  EXPECT_FALSE(co_await runtime->Sleep(std::chrono::hours(1), token));
  ++*ended;
}

Task<void> CancelAndJoin(Runtime* runtime, int* ended) {
  CancelSource parent;
  TaskScope scope(*runtime, parent.Token());
  scope.Spawn(UntilCancelled(scope.Token(), runtime, ended));
  scope.Spawn(UntilCancelled(scope.Token(), runtime, ended));
  co_await runtime->Sleep(milliseconds(1));
  parent.Cancel();
  co_await scope.Join();
  EXPECT_EQ(scope.Size(), 0u);
}

TEST_P(Loop, AScopeEndsWithItsParentToken) {
  int ended = 0;
  Run(CancelAndJoin(&runtime(), &ended));
  EXPECT_EQ(ended, 2);
}

Task<void> Block(Runtime* runtime, int* value) {
  co_await runtime->RunBlocking([value] { *value = 42; });
  EXPECT_EQ(*value, 42);
}

Task<void> AbandonBlocking(Runtime* runtime, int* value) {
  TaskScope scope(*runtime);
  for (int i = 0; i < 8; ++i) scope.Spawn(Block(runtime, value));
  co_await Yield(*runtime);
  co_await Yield(*runtime);
}

TEST_P(Loop, BlockingWorkMayBeAbandoned) {
  int value = 0;
  Run(Block(&runtime(), &value));
  EXPECT_EQ(value, 42);
  Run(AbandonBlocking(&runtime(), &value));
}

Task<void> WaitForPosts(Runtime* runtime, std::string* order) {
  Event done(*runtime);
  runtime->Post([order] { *order += "1"; });
  runtime->Post([order] { *order += "2"; });
  runtime->Post([&done] { done.Set(); });
  EXPECT_TRUE(co_await done.Wait());
}

TEST_P(Loop, PostsRunInOrder) {
  std::string order;
  Run(WaitForPosts(&runtime(), &order));
  EXPECT_EQ(order, "12");
}

TEST(RealLoop, PostsFromOtherThreadsWakeTheLoop) {
  RealRuntime runtime;
  int count = 0;
  std::thread poster([&] {
    for (int i = 0; i < 1000; ++i) runtime.Post([&count] { ++count; });
    runtime.Post([&runtime] { runtime.Stop(); });
  });
  runtime.Run();
  poster.join();
  EXPECT_EQ(count, 1000);
}

TEST(RealLoop, ATimerSetLaterMayEndEarlier) {
  RealRuntime runtime;
  const auto late = runtime.RunAt(runtime.Now() + std::chrono::hours(1), [] { FAIL(); });
  std::unique_ptr<Timer> early;
  runtime.Post([&] {
    early = runtime.RunAt(runtime.Now() + milliseconds(5), [&runtime] { runtime.Stop(); });
  });
  runtime.Run();
}

TEST(RealLoop, SignalsArriveOnTheLoop) {
  RealRuntime runtime;
  int got = 0;
  runtime.HandleSignals([&](int number) {
    got += number;
    if (got == SIGTERM + SIGINT) runtime.Stop();
  });
  runtime.Post([] {
    raise(SIGTERM);
    raise(SIGINT);
  });
  runtime.Run();
  EXPECT_EQ(got, SIGTERM + SIGINT);
}

TEST(RealLoop, RandomNumbersDiffer) {
  RealRuntime runtime;
  const uint64_t first = runtime.Random();
  for (int i = 0; i < 200; ++i) EXPECT_NE(runtime.Random(), first);
}

}  // namespace
}  // namespace tandem::rt
