#include "text/stop_matcher.h"

#include <algorithm>

namespace tandem::text {

Result<StopMatcher> StopMatcher::Create(std::vector<std::string> stops,
                                        bool include_stop_str_in_output) {
  if (stops.size() > kMaxStops) {
    return FieldErr("stop", "stop has {} strings; at most {} are allowed", stops.size(), kMaxStops);
  }
  size_t bytes = 0;
  for (const std::string& stop : stops) {
    if (stop.empty()) return FieldErr("stop", "stop contains an empty string; remove it");
    bytes += stop.size();
  }
  if (bytes > kMaxStopBytes) {
    return FieldErr("stop", "stop strings have {} bytes together; at most {} are allowed", bytes,
                    kMaxStopBytes);
  }
  StopMatcher matcher;
  matcher.stops_ = std::move(stops);
  matcher.include_ = include_stop_str_in_output;
  matcher.nodes_.emplace_back();
  for (size_t i = 0; i < matcher.stops_.size(); ++i) {
    matcher.Insert(matcher.stops_[i], static_cast<int32_t>(i));
  }
  matcher.LinkFailures();
  return matcher;
}

void StopMatcher::Insert(std::string_view stop, int32_t index) {
  uint32_t node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = Child(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_[node].next.emplace_back(byte, child);
      nodes_.emplace_back().depth = nodes_[node].depth + 1;
    }
    node = child;
  }
  if (nodes_[node].stop < 0) nodes_[node].stop = index;
}

// Breadth first, so that the failure node of a node, which is less deep, is ready before it.
void StopMatcher::LinkFailures() {
  std::vector<uint32_t> order{0};
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t node = order[i];
    for (const auto& [byte, child] : nodes_[node].next) {
      Node& made = nodes_[child];
      made.fail = node == 0 ? 0 : Step(nodes_[node].fail, byte);
      made.hold = made.next.empty() ? nodes_[made.fail].hold : made.depth;
      const int32_t shorter = nodes_[made.fail].stop;
      if (shorter >= 0 && (made.stop < 0 || shorter < made.stop)) made.stop = shorter;
      order.push_back(child);
    }
  }
}

uint32_t StopMatcher::Child(uint32_t node, uint8_t byte) const {
  for (const auto& [key, child] : nodes_[node].next) {
    if (key == byte) return child;
  }
  return 0;
}

uint32_t StopMatcher::Step(uint32_t node, uint8_t byte) const {
  while (true) {
    if (const uint32_t child = Child(node, byte); child != 0) return child;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

StopMatcher::Output StopMatcher::Push(std::string_view text, bool may_stop) {
  if (done_) return {};
  if (stops_.empty()) return {std::string(text), std::nullopt};
  held_.append(text);
  for (size_t i = 0; i < text.size(); ++i) {
    state_ = Step(state_, static_cast<uint8_t>(text[i]));
    const int32_t stop = nodes_[state_].stop;
    if (stop < 0 || !may_stop) continue;
    done_ = true;
    const auto index = static_cast<size_t>(stop);
    const size_t end = held_.size() - (text.size() - i - 1);
    held_.resize(include_ ? end : end - stops_[index].size());
    return {std::exchange(held_, {}), index};
  }
  const size_t ready = held_.size() - nodes_[state_].hold;
  Output output{held_.substr(0, ready), std::nullopt};
  held_.erase(0, ready);
  return output;
}

std::string StopMatcher::Flush() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace tandem::text
