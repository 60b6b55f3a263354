// A worker's own HTTP server: GET /health, /live, /metrics, /debug/state.
#ifndef TANDEM_ENGINE_SYSTEM_SERVER_H_
#define TANDEM_ENGINE_SYSTEM_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "engine/engine.h"
#include "engine/worker_metrics.h"
#include "net/http_server.h"
#include "net/rpc_server.h"
#include "rt/runtime.h"
#include "rt/stream.h"
#include "wire/messages.h"

namespace tandem::engine {

class SystemServer {
 public:
  // What it reports on once the worker serves. All outlive Detach.
  struct Subject {
    const Engine* engine = nullptr;
    const net::RpcServer* rpc = nullptr;
    WorkerMetrics* numbers = nullptr;
    const wire::Instance* instance = nullptr;
  };

  // Serves at once: /health is 503 until Attach, and again from Drain on.
  SystemServer(rt::Runtime& runtime, Metrics& metrics, std::unique_ptr<rt::Listener> listener);
  void Attach(const Subject& subject) { subject_ = subject; }
  void Drain() { draining_ = true; }
  void Detach() { subject_ = {}; }
  rt::Task<void> Stop();
  uint16_t port() const { return server_.address().port; }

 private:
  rt::Task<void> Answer(net::HttpRequest request, net::HttpResponder& responder);
  std::string HealthJson(bool ready) const;
  std::string StateJson() const;

  rt::Runtime& runtime_;
  Metrics& metrics_;
  const MonoTime start_;
  Subject subject_;
  bool draining_ = false;
  net::HttpServer server_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_SYSTEM_SERVER_H_
