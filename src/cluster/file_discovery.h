// Discovery through a folder that the processes of one host (or one shared volume) see: one small
// file per instance, and no server.
//
// A file is written aside and renamed, and renewed each third of a TTL with a new sequence number.
// Its writer holds an flock on it. A reader of the same boot sees a free lock as a dead writer,
// within a poll; any reader drops a file whose sequence number stood still for one TTL of its own
// monotonic clock. Files are input from outside: only regular files of the folder's owner, bounded
// in size and number and with a matching checksum, are read; others are named in the log once.
#ifndef TANDEM_CLUSTER_FILE_DISCOVERY_H_
#define TANDEM_CLUSTER_FILE_DISCOVERY_H_

#include <memory>
#include <string>

#include "base/time.h"
#include "cluster/discovery.h"

namespace tandem::cluster {

struct FileDiscoveryOptions {
  std::string folder;  // empty: DefaultDiscoveryFolder()
  Duration ttl = std::chrono::seconds(10);
  // How long a change may stay unseen. A reader that knows no instance polls each 20 ms.
  Duration poll = std::chrono::milliseconds(100);
};

// $XDG_RUNTIME_DIR/tandem, else /tmp/tandem-<uid>.
std::string DefaultDiscoveryFolder();

// Makes the folder with mode 0700 if it is missing. Refuses one that others could write to. All
// calls on the loop's thread; the file operations are short and run on it.
Result<std::unique_ptr<Discovery>> OpenFileDiscovery(rt::Runtime& runtime,
                                                     FileDiscoveryOptions options);

}  // namespace tandem::cluster

#endif  // TANDEM_CLUSTER_FILE_DISCOVERY_H_
