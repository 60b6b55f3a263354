#include "rt/timer_queue.h"

#include <utility>

namespace tandem::rt {

// A binary heap of handles, the earliest first. Each handle knows its place, so that it can leave.
struct TimerQueue::Heap {
  struct Entry {
    MonoTime when;
    uint64_t id;
    Handle* handle;
    bool Before(const Entry& other) const {
      return when != other.when ? when < other.when : id < other.id;
    }
  };
  std::vector<Entry> entries;
  uint64_t next_id = 1;

  void Push(Entry entry);
  void Remove(size_t place);

 private:
  void Put(size_t place, Entry entry);
  void MoveUp(size_t place, Entry entry);
  void MoveDown(size_t place, Entry entry);
};

class TimerQueue::Handle final : public Timer {
 public:
  Handle(std::shared_ptr<Heap> heap, std::function<void()> work)
      : heap_(std::move(heap)), work_(std::move(work)) {}
  ~Handle() override {
    if (place_ != kOut) heap_->Remove(place_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::function<void()> Take() { return std::move(work_); }
  void MovedTo(size_t place) { place_ = place; }
  static constexpr size_t kOut = SIZE_MAX;

 private:
  std::shared_ptr<Heap> heap_;
  // Dies after the timer left the heap: its captures may own other timers.
  std::function<void()> work_;
  size_t place_ = kOut;
};

void TimerQueue::Heap::Put(size_t place, Entry entry) {
  entries[place] = entry;
  entry.handle->MovedTo(place);
}

void TimerQueue::Heap::MoveUp(size_t place, Entry entry) {
  while (place > 0) {
    const size_t parent = (place - 1) / 2;
    if (!entry.Before(entries[parent])) break;
    Put(place, entries[parent]);
    place = parent;
  }
  Put(place, entry);
}

void TimerQueue::Heap::MoveDown(size_t place, Entry entry) {
  for (;;) {
    size_t child = 2 * place + 1;
    if (child >= entries.size()) break;
    if (child + 1 < entries.size() && entries[child + 1].Before(entries[child])) ++child;
    if (!entries[child].Before(entry)) break;
    Put(place, entries[child]);
    place = child;
  }
  Put(place, entry);
}

void TimerQueue::Heap::Push(Entry entry) {
  entries.push_back(entry);
  MoveUp(entries.size() - 1, entry);
}

void TimerQueue::Heap::Remove(size_t place) {
  entries[place].handle->MovedTo(Handle::kOut);
  const Entry last = entries.back();
  entries.pop_back();
  if (place == entries.size()) return;
  if (place > 0 && last.Before(entries[(place - 1) / 2]))
    MoveUp(place, last);
  else
    MoveDown(place, last);
}

std::shared_ptr<TimerQueue::Heap> TimerQueue::MakeHeap() { return std::make_shared<Heap>(); }

std::unique_ptr<Timer> TimerQueue::Add(MonoTime when, std::function<void()> work) {
  auto handle = std::make_unique<Handle>(heap_, std::move(work));
  heap_->Push({when, heap_->next_id++, handle.get()});
  return handle;
}

MonoTime TimerQueue::Earliest() const {
  return heap_->entries.empty() ? kNever : heap_->entries.front().when;
}

std::optional<std::function<void()>> TimerQueue::PopDue(MonoTime now) {
  if (heap_->entries.empty() || Earliest() > now) return std::nullopt;
  Handle& earliest = *heap_->entries.front().handle;
  heap_->Remove(0);
  return earliest.Take();
}

}  // namespace tandem::rt
