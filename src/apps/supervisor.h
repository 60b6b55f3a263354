// Keeps a set of children alive: starts them, follows their status, restarts one that dies (with
// backoff), kills one that hangs, and brings all of them down. Loop thread only.
#ifndef TANDEM_APPS_SUPERVISOR_H_
#define TANDEM_APPS_SUPERVISOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/child_process.h"
#include "base/result.h"
#include "base/time.h"
#include "rt/cancel.h"
#include "rt/runtime.h"

namespace tandem::apps {

// How long a child that died waits for its next start: 100 ms, doubled by each death in quick
// succession up to 10 s, and back to 100 ms after a minute of life.
class Backoff {
 public:
  Duration Next(Duration lived);

 private:
  int deaths_ = 0;
};

// A child that was ready and has said nothing for so long is killed and started again. Long enough
// for a busy machine, where a loop may stand still for seconds.
inline constexpr Duration kLongestSilence = std::chrono::seconds(15);

struct SupervisedChild {
  std::string name;  // "frontend", "prefill-1"
  ChildSpec spec;

  // Followed by the supervisor:
  bool ready = false;
  bool ever_ready = false;
  double load_fraction = 0;
  std::string address;  // what it said when it became ready
  int restarts = 0;
};

class Supervisor {
 public:
  // `on_log` gets the children's log lines, `on_change` is called after any change of state.
  Supervisor(rt::Runtime& runtime, std::function<void(const std::string&)> on_log,
             std::function<void()> on_change, Duration longest_silence = kLongestSilence);
  ~Supervisor();

  // The child starts with Run.
  SupervisedChild& Add(std::string name, ChildSpec spec);
  // Runs until `stop` fires and every child has ended, or until a child fails that has never been
  // ready: its own last words are the error. The child that was added first is stopped first, and
  // the others once it has ended: a frontend can finish what its workers are still doing. Each gets
  // SIGTERM, and SIGKILL after `grace`.
  rt::Task<Status> Run(rt::CancelToken stop, Duration grace);
  bool AllReady() const;

 private:
  struct Entry;
  Status StartChild(Entry& entry);
  Status Step(Entry& entry);
  void KillIfSilent(Entry& entry);
  Status OnExit(Entry& entry, int exit_status);
  void ReadPipes(Entry& entry);
  rt::Task<void> Stop(std::span<const std::unique_ptr<Entry>> entries, Duration grace);

  rt::Runtime& runtime_;
  std::function<void(const std::string&)> on_log_;
  std::function<void()> on_change_;
  const Duration longest_silence_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace tandem::apps

#endif  // TANDEM_APPS_SUPERVISOR_H_
