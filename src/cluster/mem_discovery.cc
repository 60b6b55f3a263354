#include "cluster/mem_discovery.h"

#include <map>
#include <utility>

namespace tandem::cluster {
namespace {

struct Entry {
  wire::Instance instance;
  std::unique_ptr<rt::Timer> expiry;  // on the hub's runtime, set anew by each renewal
};

struct Reader {
  rt::Runtime* runtime = nullptr;
  std::string ns;  // empty: all
  Discovery::OnChange on_change;
  std::unique_ptr<rt::Timer> pending;  // a notification that is due
};

}  // namespace

struct MemHub::State {
  State(rt::Runtime& runtime_in, Duration ttl_in) : runtime(runtime_in), ttl(ttl_in) {}

  // Through the reader's loop: a change in the middle of a callback must not call that reader again
  // before it returns, and a killed reader hears nothing.
  void NotifySoon(uint64_t reader_id, Reader& reader) {
    if (reader.pending) return;
    reader.pending =
        reader.runtime->RunAt(reader.runtime->Now(), [this, reader_id] { Notify(reader_id); });
  }

  void Notify(uint64_t reader_id) {
    Reader& reader = readers.at(reader_id);
    reader.pending.reset();
    std::vector<wire::Instance> live;
    for (const auto& [id, entry] : entries)
      if (reader.ns.empty() || entry.instance.ns == reader.ns) live.push_back(entry.instance);
    // A copy: the callback may destroy its own watch.
    const auto on_change = reader.on_change;
    on_change(live);
  }

  void NotifyAll() {
    for (auto& [id, reader] : readers) NotifySoon(id, reader);
  }

  void Remove(uint64_t id) {
    if (entries.erase(id) > 0) NotifyAll();
  }

  // Inserts an instance that the hub forgot while its owner was partitioned or suspended.
  void Renew(const wire::Instance& instance) {
    const auto [place, fresh] = entries.try_emplace(instance.id);
    if (fresh) {
      place->second.instance = instance;
      NotifyAll();
    }
    place->second.expiry =
        runtime.RunAt(runtime.Now() + ttl, [this, id = instance.id] { Remove(id); });
  }

  rt::Runtime& runtime;
  const Duration ttl;
  std::map<uint64_t, Entry> entries;
  std::map<uint64_t, Reader> readers;
  uint64_t next_reader = 1;
};

class MemDiscovery final : public Discovery {
 public:
  using StatePtr = std::shared_ptr<MemHub::State>;

  MemDiscovery(StatePtr state, rt::Runtime& owner) : state_(std::move(state)), owner_(owner) {}

  Result<std::unique_ptr<Registration>> Register(const wire::Instance& instance) override {
    if (state_->entries.contains(instance.id))
      return Err(Code::kInvalidArgument, "instance {:016x} is already registered", instance.id);
    return std::make_unique<MemRegistration>(state_, owner_, instance);
  }

  std::unique_ptr<Watch> WatchInstances(std::string ns, OnChange on_change) override {
    const uint64_t id = state_->next_reader++;
    Reader& reader = state_->readers[id];
    reader.runtime = &owner_;
    reader.ns = std::move(ns);
    reader.on_change = std::move(on_change);
    state_->NotifySoon(id, reader);
    return std::make_unique<MemWatch>(state_, id);
  }

 private:
  class MemRegistration final : public Registration {
   public:
    MemRegistration(StatePtr state, rt::Runtime& owner, const wire::Instance& instance)
        : state_(std::move(state)), owner_(owner), instance_(instance) {
      Renew();
    }
    // From the owner's loop: after a kill this never runs, and the instance expires instead.
    ~MemRegistration() override {
      timer_.reset();
      owner_.Post([state = std::move(state_), id = instance_.id] { state->Remove(id); });
    }

   private:
    void Renew() {
      state_->Renew(instance_);
      timer_ = owner_.RunAt(owner_.Now() + state_->ttl / 3, [this] { Renew(); });
    }
    StatePtr state_;
    rt::Runtime& owner_;
    wire::Instance instance_;
    std::unique_ptr<rt::Timer> timer_;
  };

  class MemWatch final : public Watch {
   public:
    MemWatch(StatePtr state, uint64_t id) : state_(std::move(state)), id_(id) {}
    ~MemWatch() override { state_->readers.erase(id_); }

   private:
    StatePtr state_;
    uint64_t id_;
  };

  StatePtr state_;
  rt::Runtime& owner_;
};

MemHub::MemHub(rt::Runtime& runtime, Duration ttl)
    : state_(std::make_shared<State>(runtime, ttl)) {}

MemHub::~MemHub() {
  // What outlives the hub must not touch its runtime any more.
  for (auto& [id, entry] : state_->entries) entry.expiry.reset();
}

std::unique_ptr<Discovery> MemHub::Open(rt::Runtime& owner) {
  return std::make_unique<MemDiscovery>(state_, owner);
}

size_t MemHub::size() const { return state_->entries.size(); }

}  // namespace tandem::cluster
