// Progress on stderr: a bar that redraws itself on a terminal, lines elsewhere.
#ifndef TANDEM_APPS_PROGRESS_H_
#define TANDEM_APPS_PROGRESS_H_

#include <string>
#include <string_view>

namespace tandem::apps {

class Progress {
 public:
  explicit Progress(bool terminal) : terminal_(terminal) {}
  ~Progress() { Clear(); }
  // `what` names the step: "loading the model".
  void Show(std::string_view what, double fraction);
  // Prints a line of its own; a bar is drawn again below it.
  void Line(std::string_view text);
  void Clear();

 private:
  bool terminal_;
  std::string bar_;      // as drawn now
  int last_tenth_ = -1;  // without a terminal a line is printed for each tenth
};

// "[#######.............]  35 % loading the model"
std::string RenderBar(std::string_view what, double fraction);

}  // namespace tandem::apps

#endif  // TANDEM_APPS_PROGRESS_H_
