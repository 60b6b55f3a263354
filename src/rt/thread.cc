#include "rt/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace tandem::rt {

Thread::Thread(const std::string& name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  thread_ = std::thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Thread::~Thread() { Join(); }

void Thread::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace tandem::rt
