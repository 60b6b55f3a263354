// A frontend and its workers as children, from their start to a URL that answers. Used by `serve`
// and `run`. Loop thread only.
#ifndef TANDEM_APPS_SERVE_SESSION_H_
#define TANDEM_APPS_SERVE_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/private_folder.h"
#include "apps/progress.h"
#include "apps/serve_plan.h"
#include "apps/supervisor.h"
#include "base/result.h"
#include "rt/cancel.h"
#include "rt/event.h"
#include "rt/runtime.h"
#include "rt/stream.h"

namespace tandem::apps {

struct Served {
  rt::Address address;  // of the frontend, reachable from this machine
  std::string url;
  std::string model;  // its name for clients
  std::string shape;  // "1 prefill + 1 decode workers"
};

class ServeSession {
 public:
  // Children end when `stop` fires. `model`: nothing where the engine needs none.
  ServeSession(rt::Runtime& runtime, const ParsedOptions& parsed,
               std::optional<hub::ResolvedModel> model, rt::CancelToken stop);
  ~ServeSession();

  // Checks the arguments and starts the children.
  Status Start();
  // Waits, with progress on stderr, until the frontend knows every worker and lists the model.
  rt::Task<Result<Served>> WaitServing();
  // Waits until every child has ended, and says why if that was not asked for.
  rt::Task<Status> WaitEnded();

 private:
  rt::Task<void> Supervise();
  rt::Task<std::string> Page(rt::Address address, std::string target);  // empty if it failed
  rt::Task<std::string> AskModelName(rt::Address address);              // empty until all are found
  void OnChange();
  void OnLog(const std::string& line);
  void ShowProgress();

  rt::Runtime& runtime_;
  const ParsedOptions& parsed_;
  const std::optional<hub::ResolvedModel> model_;
  rt::CancelToken stop_;
  Duration grace_;
  std::unique_ptr<PrivateFolder> folder_;
  ServePlan plan_;
  Progress progress_;
  Supervisor supervisor_;
  std::vector<SupervisedChild*> children_;  // owned by the supervisor; the frontend first
  bool serving_ = false;
  Status outcome_;
  rt::Event ended_;
};

// host:port as a client on this machine writes it: 0.0.0.0 becomes 127.0.0.1.
rt::Address ReachableAddress(rt::Address address);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_SERVE_SESSION_H_
