// The system server of a worker: /health, /live, /metrics and /debug/state on DYN_SYSTEM_PORT.
#ifndef TANDEM_ENGINE_SYSTEM_SERVER_H_
#define TANDEM_ENGINE_SYSTEM_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "net/http_server.h"
#include "rt/runtime.h"

namespace tandem::engine {

class SystemServer {
 public:
  // What the pages ask for. Called on the loop.
  struct Sources {
    std::function<bool()> ready;           // registered and serving
    std::function<std::string()> state;    // JSON object for /debug/state
    std::function<void()> before_metrics;  // brings the registry up to date
  };
  // Listens at once; kUnavailable, naming DYN_SYSTEM_PORT, if it cannot.
  static Result<std::unique_ptr<SystemServer>> Start(rt::Runtime& runtime, rt::Address listen,
                                                     Metrics& metrics, Sources sources);
  rt::Task<void> Stop() { co_await server_->Stop(std::chrono::seconds(1)); }
  rt::Address address() const { return server_->address(); }

 private:
  SystemServer(rt::Runtime& runtime, Metrics& metrics, Sources sources)
      : runtime_(runtime), metrics_(metrics), sources_(std::move(sources)), start_(runtime.Now()) {}
  rt::Task<void> Answer(net::HttpRequest request, net::HttpResponder& out);
  std::string StatusBody(bool ready) const;

  rt::Runtime& runtime_;
  Metrics& metrics_;
  const Sources sources_;
  const MonoTime start_;
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_SYSTEM_SERVER_H_
