#include "rt/helper_pool.h"

#include <utility>

#include "rt/event.h"

namespace tandem::rt {

// Shared between the waiting task, the queue, a helper thread and the post that reports the end.
struct HelperPool::Job {
  enum class State { kQueued, kRunning, kDone };
  std::function<void()> work;
  State state = State::kQueued;  // under the pool's mutex
  Event* done = nullptr;         // loop thread only; null once the task is gone
};

// Ends the job's claim on the task's frame.
class HelperPool::Ticket {
 public:
  Ticket(HelperPool& pool, std::shared_ptr<Job> job) : pool_(pool), job_(std::move(job)) {}
  ~Ticket() {
    job_->done = nullptr;
    pool_.Withdraw(*job_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  HelperPool& pool_;
  std::shared_ptr<Job> job_;
};

HelperPool::~HelperPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Task<void> HelperPool::Run(std::function<void()> work) {
  Event done(runtime_);
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  job->done = &done;
  const Ticket ticket(*this, job);
  Submit(job);
  co_await done.Wait();
}

void HelperPool::Submit(std::shared_ptr<Job> job) {
  while (static_cast<int>(threads_.size()) < thread_count_)
    threads_.emplace_back([this] { ThreadMain(); });
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(job));
  }
  work_ready_.notify_one();
}

void HelperPool::Withdraw(Job& job) {
  std::unique_lock lock(mutex_);
  if (job.state == Job::State::kQueued) {
    job.state = Job::State::kDone;
    return;
  }
  job_done_.wait(lock, [&] { return job.state == Job::State::kDone; });
}

void HelperPool::ThreadMain() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<Job> job = std::move(queue_.front());
    queue_.pop_front();
    if (job->state != Job::State::kQueued) continue;
    job->state = Job::State::kRunning;
    lock.unlock();
    job->work();
    lock.lock();
    job->state = Job::State::kDone;
    job_done_.notify_all();
    lock.unlock();
    runtime_.Post([job] {
      if (job->done != nullptr) job->done->Set();
    });
    lock.lock();
  }
}

}  // namespace tandem::rt
