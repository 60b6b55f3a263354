#include "apps/template_option.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/tokenizer_spec.h"

namespace tandem::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTextFlag = "--chat-template";
constexpr std::string_view kFileFlag = "--custom-jinja-template";

Result<std::string> ReadFile(std::string_view flag, const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (!error && size > text::kMaxTemplateBytes)
    return FieldErr(flag, "{} '{}': the file has {} bytes, more than any template ({})", flag, path,
                    size, text::kMaxTemplateBytes);
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (error || !(text << in.rdbuf()))
    return FieldErr(flag, "{} '{}': the file is empty or cannot be read", flag, path);
  return text.str();
}

// A template typed on a command line has its line breaks written out.
std::string Unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    constexpr std::string_view kWritten = "ntr\\'\"";
    constexpr std::string_view kMeant = "\n\t\r\\'\"";
    const size_t at = text[i] == '\\' && i + 1 < text.size() ? kWritten.find(text[i + 1])
                                                             : std::string_view::npos;
    if (at == std::string_view::npos) {
      out.push_back(text[i]);
    } else {
      out.push_back(kMeant[at]);
      ++i;
    }
  }
  return out;
}

std::string Variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::string() : value;
}

// ~ at the start, $NAME and ${NAME}; a name that is not set is left as it stands.
std::string ExpandPath(std::string_view path) {
  std::string out;
  if (path.starts_with("~") && (path.size() == 1 || path[1] == '/') && !Variable("HOME").empty()) {
    out = Variable("HOME");
    path.remove_prefix(1);
  }
  while (!path.empty()) {
    const bool braces = path.starts_with("${");
    const size_t start = braces ? 2 : 1;
    size_t end = start;
    while (path[0] == '$' && end < path.size() &&
           (std::isalnum(static_cast<unsigned char>(path[end])) != 0 || path[end] == '_'))
      ++end;
    const std::string value =
        end > start ? Variable(std::string(path.substr(start, end - start))) : std::string();
    const bool closed = !braces || (end < path.size() && path[end] == '}');
    if (value.empty() || !closed) {
      out.push_back(path[0]);
      path.remove_prefix(1);
    } else {
      out += value;
      path.remove_prefix(end + (braces ? 1 : 0));
    }
  }
  return out;
}

}  // namespace

Result<std::string> ReadTemplateOption(const ParsedOptions& parsed) {
  const std::string& text = parsed.Text("chat-template");
  const std::string& file = parsed.Text("custom-jinja-template");
  if (!text.empty() && !file.empty())
    return FieldErr(kTextFlag, "{} and {} exclude each other: keep {}", kTextFlag, kFileFlag,
                    kTextFlag);
  std::error_code error;
  if (!file.empty()) {
    const std::string path = ExpandPath(file);
    if (fs::is_regular_file(path, error)) return ReadFile(kFileFlag, path);
    return FieldErr(kFileFlag, "{} '{}': there is no such file", kFileFlag, path);
  }
  if (text.empty()) return text;
  if (text.size() < 4096 && fs::is_regular_file(text, error)) return ReadFile(kTextFlag, text);
  if (text.find_first_of("{}\n") != std::string::npos) return Unescaped(text);
  return FieldErr(kTextFlag,
                  "{} '{}': there is no such file, and it is no template either, which would hold "
                  "a brace",
                  kTextFlag, text);
}

}  // namespace tandem::apps
