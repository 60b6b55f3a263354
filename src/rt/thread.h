// A thread of its own for a component whose work must not wait behind others' in the helper pool,
// such as an engine's scheduler. Everything else belongs on the loop or in RunBlocking.
#ifndef TANDEM_RT_THREAD_H_
#define TANDEM_RT_THREAD_H_

#include <functional>
#include <string>
#include <thread>

namespace tandem::rt {

class Thread {
 public:
  // Starts at once. `name` is what ps and gdb show (15 characters at most). Signals are blocked in
  // it: they belong to the loop.
  Thread(const std::string& name, std::function<void()> body);
  ~Thread();  // joins
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void Join();  // idempotent

 private:
  std::thread thread_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_THREAD_H_
