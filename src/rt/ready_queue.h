// What a loop runs next: coroutines to resume and functions to call, first come, first served.
#ifndef TANDEM_RT_READY_QUEUE_H_
#define TANDEM_RT_READY_QUEUE_H_

#include <coroutine>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

namespace tandem::rt {

class ReadyQueue {
 public:
  void Push(std::coroutine_handle<> coroutine) { items_.push_back({coroutine, {}}); }
  void Push(std::function<void()> work) { items_.push_back({{}, std::move(work)}); }
  // Rare (a coroutine destroyed between wake-up and run), so a search is fine.
  void Remove(std::coroutine_handle<> coroutine) {
    for (Item& item : items_) {
      if (item.coroutine == coroutine) item.coroutine = {};
    }
  }
  bool Empty() const { return items_.empty(); }
  size_t Size() const { return items_.size(); }
  void RunFront() {
    Item item = std::move(items_.front());
    items_.pop_front();
    if (item.coroutine) {
      item.coroutine.resume();
    } else if (item.work) {
      item.work();
    }
  }

 private:
  struct Item {
    std::coroutine_handle<> coroutine;
    std::function<void()> work;
  };
  std::deque<Item> items_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_READY_QUEUE_H_
