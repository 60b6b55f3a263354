#include "apps/model_option.h"

#include <unistd.h>

#include "apps/progress.h"
#include "base/log.h"

namespace tandem::apps {
namespace {

double Fraction(uint64_t done, uint64_t total) {
  return total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
}

std::string Downloading(std::string_view what, uint64_t total) {
  return fmt::format("downloading {} ({:.1f} MB in all)", what, static_cast<double>(total) / 1e6);
}

}  // namespace

Result<std::optional<hub::ResolvedModel>> ResolveModel(const ParsedOptions& parsed) {
  hub::ResolveOptions options;
  options.model = parsed.Text("model");
  options.revision = parsed.Text("revision");
  if (options.model.empty() && !options.revision.empty())
    return FieldErr("--revision", "--revision {} without --model names nothing", options.revision);
  if (options.model.empty()) return std::nullopt;
  options.on_progress = [tenth = -1](std::string_view what, uint64_t done, uint64_t total) mutable {
    const int now = static_cast<int>(Fraction(done, total) * 10);
    if (now != tenth) LOG_INFO("{}: {} %", Downloading(what, total), now * 10);
    tenth = now;
  };
  return hub::Resolve(options);
}

Result<std::optional<hub::ResolvedModel>> ResolveModelForChildren(const ParsedOptions& parsed) {
  const std::string& revision = parsed.Text("revision");
  if (parsed.positional().empty() && !revision.empty())
    return FieldErr("--revision", "--revision {} without MODEL names nothing", revision);
  if (parsed.positional().empty()) return std::nullopt;
  Progress progress(isatty(STDERR_FILENO) != 0);
  hub::ResolveOptions options;
  options.model = parsed.positional();
  options.revision = revision;
  options.on_progress = [&](std::string_view what, uint64_t done, uint64_t total) {
    progress.Show(Downloading(what, total), Fraction(done, total));
  };
  return hub::Resolve(options);
}

}  // namespace tandem::apps
