// Python's view of characters, for string methods: white space, case, classes.
#ifndef TANDEM_TEXT_UNICODE_H_
#define TANDEM_TEXT_UNICODE_H_

#include <string>
#include <string_view>

namespace tandem::text {

bool IsPythonSpace(char32_t c);  // str.isspace, and \s of its regular expressions
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsNumeric(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);

std::string ToLower(std::string_view text);
std::string ToUpper(std::string_view text);
std::string ToTitle(std::string_view text);  // the first letter of each word in upper case
std::string Capitalise(std::string_view text);
std::string SwapCase(std::string_view text);

// Bytes of white space at either end of valid UTF-8.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);
inline std::string_view Strip(std::string_view text) { return StripLeft(StripRight(text)); }
// The same for any character that occurs in `set`.
std::string_view StripLeftOf(std::string_view text, std::string_view set);
std::string_view StripRightOf(std::string_view text, std::string_view set);

// The last code point of valid UTF-8, which is not empty.
std::string_view LastCharacter(std::string_view text);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_UNICODE_H_
