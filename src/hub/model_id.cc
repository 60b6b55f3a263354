#include "hub/model_id.h"

#include <algorithm>

namespace tandem::hub {
namespace {

constexpr size_t kMaxName = 96;
constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxPart = 250;  // of a path; file systems take 255

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsName(std::string_view text) {
  const auto edge = [](char c) { return c == '-' || c == '.'; };
  return !text.empty() && text.size() <= kMaxName && !edge(text.front()) && !edge(text.back()) &&
         text.find("--") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace

bool ModelId::NamesFile() const { return file.ends_with(".gguf"); }

bool IsRepoPath(std::string_view text) {
  if (text.empty() || text.size() > kMaxPath) return false;
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  while (true) {
    const size_t end = text.find('/');
    const std::string_view part = text.substr(0, end);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxPart) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool IsRevision(std::string_view text) {
  return IsRepoPath(text) && text.size() <= kMaxPart &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return IsAlnum(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == '+';
         });
}

bool IsCommit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<ModelId> ParseModelId(std::string_view text) {
  ModelId id;
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    id.file = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!IsRepoPath(id.file)) return std::nullopt;
  }
  const size_t at = text.find('@');
  if (at != std::string_view::npos) {
    id.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!IsRevision(id.revision)) return std::nullopt;
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos || !IsName(text.substr(0, slash)) ||
      !IsName(text.substr(slash + 1)))
    return std::nullopt;
  id.repo = text;
  return id;
}

}  // namespace tandem::hub
