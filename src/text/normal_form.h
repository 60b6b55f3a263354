// Unicode normalisation forms of valid UTF-8.
#ifndef TANDEM_TEXT_NORMAL_FORM_H_
#define TANDEM_TEXT_NORMAL_FORM_H_

#include <string>
#include <string_view>

namespace tandem::text {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Appends the form to `out`, or returns false and appends nothing if the text is in it already (it
// may also return true then). Characters whose compatibility form is newer than those that
// tokenizers know stay as they are.
bool Normalise(NormalForm form, std::string_view text, std::string& out);

}  // namespace tandem::text

#endif  // TANDEM_TEXT_NORMAL_FORM_H_
