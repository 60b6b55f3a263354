#include "text/clean_spaces.h"

#include <utility>

namespace tandem::text {
namespace {

bool EndsInSpace(const std::string& text) { return text.ends_with(' '); }

// Each pass looks at the character before as the pass before left it, not as it is being rewritten.
std::string CloseUpPunctuation(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool mark = c == '?' || c == '!' || c == '.' || c == ',';
    if (mark && i > 0 && text[i - 1] == ' ' && EndsInSpace(out)) out.pop_back();
    out.push_back(c);
  }
  return out;
}

std::string CloseUpApostrophes(std::string text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool lone =
        c == '\'' && i > 0 && i + 1 < text.size() && text[i - 1] == ' ' && text[i + 1] == ' ';
    if (lone) {
      if (EndsInSpace(out)) out.pop_back();
      text[++i] = '\0';  // no space any more for what follows
    }
    out.push_back(c);
  }
  return out;
}

std::string CloseUpContractions(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const bool contraction = rest.starts_with("'s") || rest.starts_with("'m") ||
                             rest.starts_with("'re") || rest.starts_with("'ve");
    if (contraction && i > 0 && text[i - 1] == ' ' && EndsInSpace(out)) out.pop_back();
    out.push_back(text[i]);
  }
  return out;
}

}  // namespace

std::string CleanWordPiece(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  std::string now(text);
  for (const auto& [what, with] : kRules) {
    for (size_t at = now.find(what); at != std::string::npos;
         at = now.find(what, at + with.size())) {
      now.replace(at, what.size(), with);
    }
  }
  return now;
}

std::string CleanSpaces(std::string_view text) {
  return CloseUpContractions(CloseUpApostrophes(CloseUpPunctuation(text)));
}

}  // namespace tandem::text
