// Handing a descriptor to another process over a Unix socket.
#ifndef TANDEM_XFER_FD_PASSING_H_
#define TANDEM_XFER_FD_PASSING_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "xfer/arena.h"

namespace tandem::xfer {

// OK if the process at the other end of a connected Unix socket runs as our user.
Status CheckSameUser(int socket);

// Sends `fd` with an 8-byte note. Does not block: the first message on a socket always fits.
Status SendFd(int socket, int fd, uint64_t note);

// Connects to "unix:@name" or "unix:/path", sends `token`, and receives a descriptor whose note
// must equal `note`. Blocking, for a helper thread; at most about `timeout`. kUnavailable where
// there is no such socket in this network namespace.
Result<Fd> FetchFd(const std::string& address, uint64_t token, uint64_t note, Duration timeout);

}  // namespace tandem::xfer

#endif  // TANDEM_XFER_FD_PASSING_H_
