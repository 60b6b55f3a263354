#include "rt/sim_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rt/sim_core.h"

namespace tandem::rt::internal {
namespace {

constexpr size_t kWindow = 256 * 1024;  // unread and travelling bytes of one direction
constexpr size_t kSegment = 64 * 1024;

std::unexpected<Error> Lost(const char* what) { return Err(Code::kConnectionLost, "{}", what); }

class SimStream final : public Stream {
 public:
  SimStream(std::shared_ptr<SimConnection> connection, int end)
      : connection_(std::move(connection)), end_(end) {}
  ~SimStream() override { connection_->Close(end_); }
  Task<Result<size_t>> Read(std::span<std::byte> into, CancelToken cancel) override {
    return SimConnection::Read(connection_, end_, into, std::move(cancel));
  }
  Task<Status> Write(std::span<const std::byte> bytes, CancelToken cancel) override {
    return SimConnection::Write(connection_, end_, bytes, std::move(cancel));
  }
  Result<size_t> TryWrite(std::span<const std::byte> bytes) override {
    return connection_->TryWrite(end_, bytes);
  }
  void Close() override { connection_->Close(end_); }
  void EndWrites() override { connection_->EndWrites(end_); }
  CancelRegistration OnPeerGone(std::function<void()> callback) override {
    return connection_->OnPeerGone(end_, std::move(callback));
  }
  CancelRegistration OnBroken(std::function<void()> callback) override {
    return connection_->OnBroken(end_, std::move(callback));
  }
  std::string PeerName() const override { return connection_->PeerName(end_); }

 private:
  std::shared_ptr<SimConnection> connection_;
  int end_;
};

}  // namespace

std::unique_ptr<Stream> MakeSimStream(std::shared_ptr<SimConnection> connection, int end) {
  return std::make_unique<SimStream>(std::move(connection), end);
}

SimConnection::SimConnection(SimFabric& fabric, SimHost& opener, SimHost& accepter,
                             std::string address)
    : fabric_(fabric),
      id_(fabric.next_connection_id_++),
      address_(std::move(address)),
      ends_{End(opener, opener), End(accepter, accepter)} {
  fabric_.connections_.emplace(id_, this);
}

SimConnection::~SimConnection() { fabric_.connections_.erase(id_); }

std::string SimConnection::PeerName(int end) const {
  return fmt::format("{} ({})", ends_[static_cast<size_t>(1 - end)].host->name(), address_);
}

bool SimConnection::Between(std::string_view a, std::string_view b) const {
  const std::string& first = ends_[0].host->name();
  const std::string& second = ends_[1].host->name();
  return (first == a && second == b) || (first == b && second == a);
}

size_t SimConnection::Take(End& end, std::span<std::byte> into) {
  const size_t count = std::min(into.size(), end.received.size() - end.read_position);
  std::memcpy(into.data(), end.received.data() + end.read_position, count);
  end.read_position += count;
  if (end.read_position == end.received.size()) {
    end.received.clear();
    end.read_position = 0;
  }
  return count;
}

Task<Result<size_t>> SimConnection::Read(std::shared_ptr<SimConnection> self, int end,
                                         std::span<std::byte> into, CancelToken cancel) {
  End& mine = self->At(end);
  for (;;) {
    if (mine.closed) co_return Lost("the connection was closed");
    if (cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
    if (mine.broken) co_return Lost("the connection was reset");
    if (into.empty() || mine.read_position < mine.received.size()) {
      const size_t limit = self->fabric_.LinkOf(*self->Other(end).host, *mine.host).max_read;
      if (limit > 0 && !into.empty())
        into = into.first(std::min(into.size(), 1 + self->fabric_.core().RandomBelow(limit)));
      const size_t count = Take(mine, into);
      self->Other(end).writable.WakeAll();
      co_return count;
    }
    if (mine.fin_seen) co_return size_t{0};
    CO_TRY(co_await mine.readable.Wait(cancel));
  }
}

size_t SimConnection::RoomFor(const End& to) const {
  const size_t used = to.received.size() - to.read_position + to.incoming_bytes;
  return used >= kWindow ? 0 : std::min(kSegment, kWindow - used);
}

Task<Status> SimConnection::Write(std::shared_ptr<SimConnection> self, int end,
                                  std::span<const std::byte> bytes, CancelToken cancel) {
  End& mine = self->At(end);
  for (;;) {
    if (!mine.closed && cancel.Cancelled()) co_return std::unexpected(cancel.Reason());
    CO_TRY_ASSIGN(const size_t count, self->TryWrite(end, bytes));
    bytes = bytes.subspan(count);
    if (bytes.empty()) co_return Status();
    CO_TRY(co_await mine.writable.Wait(cancel));
  }
}

Result<size_t> SimConnection::TryWrite(int end, std::span<const std::byte> bytes) {
  if (At(end).closed) return Lost("the connection was closed");
  if (At(end).broken) return Lost("the connection was reset");
  size_t sent = 0;
  while (sent < bytes.size()) {
    const size_t count = std::min(bytes.size() - sent, RoomFor(Other(end)));
    if (count == 0) break;
    const auto piece = bytes.subspan(sent, count);
    Send(end, std::vector<std::byte>(piece.begin(), piece.end()));
    sent += count;
  }
  return sent;
}

void SimConnection::Send(int from, std::vector<std::byte> bytes) {
  End& to = Other(from);
  const SimLink& link = fabric_.LinkOf(*At(from).host, *to.host);
  const auto transmission = Duration(
      static_cast<int64_t>(static_cast<double>(bytes.size()) * 1e9 / link.bytes_per_second));
  to.link_free = std::max(to.link_free, fabric_.core().now()) + transmission;
  MonoTime due = to.link_free + fabric_.DelayOf(link);
  if (!to.incoming.empty()) due = std::max(due, to.incoming.back().due);
  to.incoming_bytes += bytes.size();
  to.incoming.push_back({due, std::move(bytes)});
  Arm(1 - from);
}

void SimConnection::Arm(int to) {
  End& end = At(to);
  if (end.timer != nullptr || end.incoming.empty()) return;
  const MonoTime when = std::max(end.incoming.front().due, fabric_.core().now());
  end.timer = fabric_.core().RunAt(when, [this, to] {
    At(to).timer.reset();
    Deliver(to);
  });
}

void SimConnection::Deliver(int to) {
  const auto self = shared_from_this();  // callbacks may drop both streams
  End& end = At(to);
  End& sender = Other(to);
  if (end.incoming.empty() || end.silent || fabric_.Partitioned(*end.host, *sender.host)) return;
  Segment segment = std::move(end.incoming.front());
  end.incoming.pop_front();
  end.incoming_bytes -= segment.bytes.size();
  fabric_.core().Trace(id_ * 2 + static_cast<uint64_t>(to));
  fabric_.core().TraceBytes(segment.bytes);
  Arm(to);
  if (end.broken) return;
  if (end.closed) {
    // Nobody reads here any more. The sender learns it as TCP tells it, by a reset.
    if (!segment.bytes.empty()) Break(sender);
    return;
  }
  if (!segment.bytes.empty()) {
    end.received.insert(end.received.end(), segment.bytes.begin(), segment.bytes.end());
    end.readable.WakeAll();
    return;
  }
  end.fin_seen = true;
  end.readable.WakeAll();
  end.gone.Cancel();
}

void SimConnection::Kick() {
  Arm(0);
  Arm(1);
}

void SimConnection::Close(int end) {
  End& mine = At(end);
  if (mine.closed) return;
  mine.closed = true;
  mine.readable.WakeAll();
  mine.writable.WakeAll();
  EndWrites(end);
}

void SimConnection::EndWrites(int end) {
  End& mine = At(end);
  if (mine.broken || mine.silent || std::exchange(mine.ended, true)) return;
  // The end of the stream follows the bytes that are still on their way.
  Send(end, {});
}

void SimConnection::Break(End& end) {
  if (end.broken || end.closed || end.silent) return;
  end.broken = true;
  end.received.clear();
  end.read_position = 0;
  end.readable.WakeAll();
  end.writable.WakeAll();
  end.reset.Cancel();
}

void SimConnection::Reset() {
  const auto self = shared_from_this();
  fabric_.core().Trace(id_);
  Break(ends_[0]);
  Break(ends_[1]);
}

CancelRegistration SimConnection::OnPeerGone(int end, std::function<void()> callback) {
  return At(end).gone.Token().OnCancel(std::move(callback));
}

CancelRegistration SimConnection::OnBroken(int end, std::function<void()> callback) {
  return At(end).reset.Token().OnCancel(std::move(callback));
}

void SimConnection::HostDied(const SimHost& host, KillMode mode) {
  for (const int end : {0, 1}) {
    End& mine = At(end);
    if (mine.host != &host) continue;
    if (mode == KillMode::kProcess) {
      Close(end);
      continue;
    }
    mine.silent = true;
    // What it had sent is lost with the machine's network card.
    Other(end).incoming.clear();
    Other(end).incoming_bytes = 0;
    Other(end).timer.reset();
  }
}

}  // namespace tandem::rt::internal
