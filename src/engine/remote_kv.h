// A prompt's KV that another worker holds under a lease, as the scheduler sees it.
#ifndef TANDEM_ENGINE_REMOTE_KV_H_
#define TANDEM_ENGINE_REMOTE_KV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "kv/ids.h"

namespace tandem::engine {

struct RemoteKv {
  std::vector<kv::BlockRef> blocks;  // in sequence order
  int64_t tokens = 0;                // prompt tokens that they hold
  MonoTime give_up = kNever;         // then the prompt is computed locally
};

// A lease that the scheduler granted for a finished prefill leg.
struct GrantedKv {
  kv::LeaseId lease = 0;
  MonoTime expiry;
  std::vector<kv::BlockRef> blocks;
  int64_t tokens = 0;
};

// What a finished pull moved.
struct PullDone {
  int64_t bytes = 0;
  double seconds = 0;
  std::string transport;
};

}  // namespace tandem::engine

#endif  // TANDEM_ENGINE_REMOTE_KV_H_
