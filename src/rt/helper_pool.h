// A few threads that run blocking work for a loop. Started on first use.
#ifndef TANDEM_RT_HELPER_POOL_H_
#define TANDEM_RT_HELPER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rt/runtime.h"

namespace tandem::rt {

class HelperPool {
 public:
  HelperPool(Runtime& runtime, int threads) : runtime_(runtime), thread_count_(threads) {}
  ~HelperPool();  // after all tasks that await Run have ended or been destroyed

  // Runs `work` on a helper thread and continues on the loop. Destroying the task before that takes
  // the work back or, if it has begun, waits for it: `work` may use what its caller owns.
  Task<void> Run(std::function<void()> work);

 private:
  struct Job;
  class Ticket;
  void Submit(std::shared_ptr<Job> job);
  void Withdraw(Job& job);
  void ThreadMain();

  Runtime& runtime_;
  const int thread_count_;
  std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable job_done_;
  std::deque<std::shared_ptr<Job>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::rt

#endif  // TANDEM_RT_HELPER_POOL_H_
