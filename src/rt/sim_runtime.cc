#include "rt/sim_runtime.h"

#include <utility>

#include "base/hash.h"
#include "rt/sim_core.h"
#include "rt/task_set.h"

namespace tandem::rt {

namespace internal {
namespace {

// The finaliser of SplitMix64: a bijection that spreads every input bit.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t SimCore::Random() {
  random_ += 0x9e3779b97f4a7c15ULL;
  return Mix(random_);
}

void SimCore::Trace(uint64_t fact) {
  const auto when = static_cast<uint64_t>(now_.time_since_epoch().count());
  hash_ = Mix(hash_ + Mix(when) + fact + 1);
}

void SimCore::TraceBytes(std::span<const std::byte> bytes) { Trace(Xxh3(bytes)); }

SimHost& SimCore::AddHost(std::string name) {
  hosts_.push_back(std::unique_ptr<SimHost>(new SimHost(*this, std::move(name), NextHostId())));
  return *hosts_.back();
}

void SimCore::DestroyTasks() {
  for (const auto& host : hosts_) host->DestroyTasks();
}

void SimCore::Remove(std::coroutine_handle<> coroutine) {
  for (Item& item : ready_) {
    if (item.coroutine == coroutine) item.coroutine = {};
  }
}

bool SimCore::Step(MonoTime limit) {
  if (!ready_.empty()) {
    Item item = std::move(ready_.front());
    ready_.pop_front();
    if (!item.host->Alive()) return true;
    Trace(item.host->id());
    if (item.coroutine) {
      item.coroutine.resume();
    } else if (item.work) {
      item.work();
    }
    return true;
  }
  const MonoTime next = timers_.Earliest();
  if (next == kNever || next > limit) return false;
  AdvanceTo(next);
  if (auto due = timers_.PopDue(now_)) (*due)();
  return true;
}

SimCoreHolder::SimCoreHolder(uint64_t seed) : core(std::make_unique<SimCore>(seed)) {}
SimCoreHolder::~SimCoreHolder() = default;

}  // namespace internal

namespace {

class SimNetwork final : public Network {
 public:
  SimNetwork(SimHost& host, internal::SimFabric& fabric) : host_(host), fabric_(fabric) {}
  Result<std::unique_ptr<Listener>> Listen(const Address& address) override {
    return fabric_.Listen(host_, address);
  }
  Task<Result<std::unique_ptr<Stream>>> Connect(Address address, Duration timeout,
                                                CancelToken cancel) override {
    return fabric_.Connect(host_, std::move(address), timeout, std::move(cancel));
  }

 private:
  SimHost& host_;
  internal::SimFabric& fabric_;
};

}  // namespace

struct SimHost::State {
  State(SimHost& host, internal::SimFabric& fabric) : network(host, fabric) {}
  SimNetwork network;
  TaskSet tasks;
};

SimHost::SimHost(internal::SimCore& core, std::string name, uint32_t id)
    : core_(core),
      name_(std::move(name)),
      id_(id),
      state_(std::make_unique<State>(*this, core.fabric())) {}

SimHost::~SimHost() = default;

void SimHost::DestroyTasks() { state_->tasks.DestroyAll(); }

void SimHost::Kill(KillMode mode) {
  if (!alive_) return;
  alive_ = false;
  core_.Trace(id_);
  core_.fabric().HostDied(*this, mode);
  DestroyTasks();
}

MonoTime SimHost::Now() const { return core_.now(); }

int64_t SimHost::UnixMillis() const {
  constexpr int64_t kStart = 1'800'000'000'000;  // some day in 2027
  return kStart + ToMillis(core_.now().time_since_epoch());
}

uint64_t SimHost::Random() { return core_.Random(); }

Network& SimHost::network() { return state_->network; }

void SimHost::Post(std::function<void()> work) {
  if (alive_) core_.Push(*this, std::move(work));
}

void SimHost::Schedule(std::coroutine_handle<> coroutine) {
  if (alive_) core_.Push(*this, coroutine);
}

void SimHost::Unschedule(std::coroutine_handle<> coroutine) { core_.Remove(coroutine); }

std::unique_ptr<Timer> SimHost::RunAt(MonoTime when, std::function<void()> work) {
  return core_.RunAt(when, [this, work = std::move(work)] {
    if (!alive_) return;
    core_.Trace(id_);
    work();
  });
}

Task<void> SimHost::RunBlocking(std::function<void()> work) {
  work();
  co_return;
}

void SimHost::Spawn(Task<void> task) {
  if (alive_) state_->tasks.Start(*this, std::move(task));
}

SimRuntime::SimRuntime(uint64_t seed)
    : SimCoreHolder(seed), SimHost(*core, "main", core->NextHostId()) {}

SimRuntime::~SimRuntime() {
  DestroyTasks();
  core->DestroyTasks();
}

SimHost& SimRuntime::AddHost(std::string name) { return core->AddHost(std::move(name)); }

bool SimRuntime::RunUntil(const std::function<bool()>& done, Duration limit) {
  const MonoTime end = Now() + limit;
  while (!done()) {
    if (!core->Step(end)) return false;
  }
  return true;
}

bool SimRuntime::RunUntilIdle(Duration limit) {
  const MonoTime end = Now() + limit;
  while (core->Step(end)) {
  }
  return core->Idle();
}

void SimRuntime::RunFor(Duration d) {
  const MonoTime end = Now() + d;
  while (core->Step(end)) {
  }
  core->AdvanceTo(end);
}

namespace {

Task<void> RunThenMark(Task<void> task, std::shared_ptr<bool> ended) {
  co_await std::move(task);
  *ended = true;
}

}  // namespace

bool SimRuntime::RunTask(Task<void> task, Duration limit) {
  const auto ended = std::make_shared<bool>(false);
  Spawn(RunThenMark(std::move(task), ended));
  return RunUntil([&] { return *ended; }, limit);
}

void SimRuntime::SetDefaultLink(SimLink link) { core->fabric().SetDefaultLink(link); }
void SimRuntime::SetLink(std::string_view from, std::string_view to, SimLink link) {
  core->fabric().SetLink(from, to, link);
}
void SimRuntime::Partition(std::string_view a, std::string_view b) {
  core->fabric().Partition(a, b);
}
void SimRuntime::Heal(std::string_view a, std::string_view b) { core->fabric().Heal(a, b); }
void SimRuntime::HealAll() { core->fabric().HealAll(); }
void SimRuntime::ResetConnections(std::string_view a, std::string_view b) {
  core->fabric().ResetConnections(a, b);
}
size_t SimRuntime::OpenConnections() const { return core->fabric().OpenConnections(); }
uint64_t SimRuntime::TraceHash() const { return core->trace_hash(); }

}  // namespace tandem::rt
