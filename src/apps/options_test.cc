#include "apps/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "apps/help.h"
#include "apps/nearest.h"
#include "apps/process_options.h"
#include "apps/template_option.h"
#include "base/source_dir.h"

namespace tandem::apps {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string, std::less<>>;

Result<ParsedOptions> Parse(Command command, Words words, Variables variables = {}) {
  return ParseOptions(command, words, [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return {};
    return found->second;
  });
}

std::string ErrorOf(const Result<ParsedOptions>& parsed) {
  return parsed ? "(no error)" : parsed.error().message;
}

TEST(Options, CommandLineWinsOverVariableOverDefault) {
  EXPECT_EQ(Parse(kFrontend, {})->Int("http-port"), 8000);
  EXPECT_EQ(Parse(kFrontend, {}, {{"DYN_HTTP_PORT", "81"}})->Int("http-port"), 81);
  const auto both = Parse(kFrontend, {"--http-port=82"}, {{"DYN_HTTP_PORT", "81"}});
  EXPECT_EQ(both->Int("http-port"), 82);
  EXPECT_EQ(both->SourceOf("http-port"), Source::kCommandLine);
  // A variable that the command line overrides is not even checked.
  EXPECT_TRUE(Parse(kFrontend, {"--http-port", "82"}, {{"DYN_HTTP_PORT", "x"}}));
  // An empty variable is an unset one.
  EXPECT_EQ(Parse(kFrontend, {}, {{"DYN_HTTP_PORT", ""}})->Int("http-port"), 8000);
}

TEST(Options, BooleansAreNegatableAndTakeNoValue) {
  EXPECT_TRUE(Parse(kWorker, {})->Bool("enable-prefix-caching"));
  EXPECT_FALSE(Parse(kWorker, {"--no-enable-prefix-caching"})->Bool("enable-prefix-caching"));
  EXPECT_TRUE(Parse(kWorker, {"--no-enable-prefix-caching", "--enable-prefix-caching"})
                  ->Bool("enable-prefix-caching"));
  EXPECT_NE(ErrorOf(Parse(kWorker, {"--enable-prefix-caching=true"})).find("takes no value"),
            std::string::npos);
  for (const std::string on : {"1", "true", "YES", " on "})
    EXPECT_TRUE(Parse(kFrontend, {}, {{"DYN_ENFORCE_DISAGG", on}})->Bool("enforce-disagg")) << on;
  for (const std::string off : {"0", "false", "No", "off"})
    EXPECT_FALSE(Parse(kFrontend, {}, {{"DYN_ENFORCE_DISAGG", off}})->Bool("enforce-disagg"))
        << off;
  const std::string strange = ErrorOf(Parse(kFrontend, {}, {{"DYN_ENFORCE_DISAGG", "maybe"}}));
  for (const char* part : {"DYN_ENFORCE_DISAGG", "'maybe'", "write true or false"})
    EXPECT_NE(strange.find(part), std::string::npos) << strange;
}

TEST(Options, ErrorsNameTheOptionTheValueAndTheRemedy) {
  const auto expect = [](const Result<ParsedOptions>& parsed, Words parts) {
    for (const std::string& part : parts)
      EXPECT_NE(ErrorOf(parsed).find(part), std::string::npos) << ErrorOf(parsed);
  };
  expect(Parse(kFrontend, {"--http-prot", "1"}), {"--http-prot", "did you mean --http-port"});
  expect(Parse(kFrontend, {"--http-port", "x"}), {"--http-port", "'x'", "whole number"});
  expect(Parse(kFrontend, {"--http-port", "70000"}), {"70000", "0 to 65535"});
  expect(Parse(kFrontend, {"--http-port"}), {"--http-port needs a value"});
  expect(Parse(kFrontend, {"--http-port", "--router-mode", "random"}), {"needs a value"});
  expect(Parse(kFrontend, {"--router-mode", "rondom"}), {"round-robin or random", "meant random"});
  expect(Parse(kFrontend, {}, {{"DYN_ROUTER_MODE", "kv"}}), {"DYN_ROUTER_MODE", "'kv'"});
  expect(Parse(kWorker, {"--http-port", "1"}), {"it is an option of 'tandem serve'"});
  expect(Parse(kWorker, {"model.gguf"}), {"--model model.gguf"});
  expect(Parse(kServe, {"a.gguf", "b.gguf"}), {"'b.gguf'", "already 'a.gguf'"});
  expect(Parse(kWorker, {"-m", "x"}), {"unknown option -m"});
}

TEST(Options, ReadsListsSizesAndNegativeNumbers) {
  const auto worker = Parse(
      kWorker, {"--served-model-name", "a", "b", "--max_model_len", "4K", "--system-port", "-1"});
  ASSERT_TRUE(worker) << ErrorOf(worker);
  EXPECT_EQ(worker->List("served-model-name"), (Words{"a", "b"}));
  EXPECT_EQ(worker->Int("max-model-len"), 4096);
  EXPECT_EQ(worker->Int("system-port"), -1);
  // Where a positional follows, a list takes one word at a time.
  const auto serve =
      Parse(kServe, {"--served-model-name", "a", "m.gguf", "--served-model-name", "b"});
  ASSERT_TRUE(serve) << ErrorOf(serve);
  EXPECT_EQ(serve->positional(), "m.gguf");
  EXPECT_EQ(serve->List("served-model-name"), (Words{"a", "b"}));
  EXPECT_EQ(Parse(kServe, {"m.gguf", "--served-model-name", "a", "b"})->List("served-model-name"),
            (Words{"a", "b"}));
  EXPECT_EQ(Parse(kWorker, {"--kv-transports", "tcp"})->List("kv-transports"), Words{"tcp"});
  EXPECT_FALSE(Parse(kWorker, {"--kv-transports", "shm,pigeon"}));
  EXPECT_EQ(ParseSize("2k"), 2000);
  EXPECT_EQ(ParseSize("25.6k"), 25600);
  EXPECT_EQ(ParseSize("1.5m"), 1500000);
  for (const char* bad : {"25.6K", "1.0005k", "1.k", ".5k", "-1.5k", "1.2.3k", "1.5"})
    EXPECT_FALSE(ParseSize(bad)) << bad;
  for (const char* text : {"auto", "-1", "0"})
    EXPECT_EQ(MakeWorkerOptions(*Parse(kWorker, {"--engine", "mock", "--max-model-len", text}))
                  ->max_model_len,
              0);
  EXPECT_EQ(Parse(kWorker, {"--max-model-len", "32K"})->Int("max-model-len"), 32768);
  EXPECT_NE(ErrorOf(Parse(kWorker, {"--max-model-len", "-2"})).find("-1 to"), std::string::npos);
  EXPECT_NE(ErrorOf(Parse(kWorker, {"--max-model-len", "all"})).find("auto or"), std::string::npos);
  EXPECT_EQ(ParseSize("2G"), int64_t{2} << 30);
  EXPECT_FALSE(ParseSize("9999999999999G"));
  EXPECT_FALSE(ParseSize("G"));
}

TEST(Options, HandsOnWhatTheOtherCommandKnows) {
  const auto serve = Parse(kServe,
                           {"m.gguf", "--http-port", "1", "--block-size", "32",
                            "--no-enable-prefix-caching", "--served-model-name", "n"},
                           {{"DYN_ROUTER_MODE", "random"}});
  ASSERT_TRUE(serve) << ErrorOf(serve);
  EXPECT_EQ(serve->ArgumentsFor(kFrontend), (Words{"--http-port", "1"}));
  EXPECT_EQ(serve->ArgumentsFor(kWorker), (Words{"--block-size", "32", "--no-enable-prefix-caching",
                                                 "--served-model-name", "n"}));
}

// An option that is parsed and then ignored misleads whoever sets it.
TEST(Options, FrontendAndWorkerUseEveryOption) {
  const auto frontend = Parse(kFrontend, {});
  MakeFrontendOptions(*frontend);
  MakePlaneChoice(*frontend);
  // Read where the process is set up.
  const Words process = {"drain-timeout", "status-fd"};
  EXPECT_EQ(frontend->Unread(), process);
  const auto worker = Parse(
      kWorker, {"--engine", "mock", "--kv-transfer-config", std::string(kTransferConfigExample)});
  ASSERT_TRUE(worker) << ErrorOf(worker);
  ASSERT_TRUE(CheckWorkerSyntax(*worker));
  const auto options = MakeWorkerOptions(*worker);
  ASSERT_TRUE(options) << options.error().message;
  MakePlaneChoice(*worker);
  EXPECT_EQ(worker->Unread(), process);
}

TEST(WorkerOptions, RolesAndTheirRules) {
  const auto role_of = [](Words words) {
    words.insert(words.end(), {"--engine", "mock"});
    const auto parsed = Parse(kWorker, words);
    EXPECT_TRUE(parsed) << ErrorOf(parsed);
    const auto options = MakeWorkerOptions(*parsed);
    return options ? std::string(engine::RoleName(options->role)) : options.error().message;
  };
  const std::string config(kTransferConfigExample);
  EXPECT_EQ(role_of({}), "agg");
  EXPECT_EQ(role_of({"--disaggregation-mode", "pd"}), "agg");
  EXPECT_EQ(role_of({"--disaggregation-mode", "decode"}), "decode");
  EXPECT_EQ(role_of({"--disaggregation-mode", "prefill", "--kv-transfer-config", config}),
            "prefill");
  EXPECT_EQ(role_of({"--is-prefill-worker", "--kv-transfer-config", config}), "prefill");
  EXPECT_EQ(role_of({"--disaggregation-mode", "prefill", "--kv-transfer-config", "{}"}), "prefill");
  EXPECT_NE(role_of({"--disaggregation-mode", "prefill"}).find("--kv-transfer-config"),
            std::string::npos);
  EXPECT_NE(role_of({"--is-prefill-worker", "--is-decode-worker"}).find("exclude each other"),
            std::string::npos);
  EXPECT_NE(role_of({"--is-decode-worker", "--disaggregation-mode", "agg"}).find("exclude"),
            std::string::npos);
  EXPECT_FALSE(CheckWorkerSyntax(*Parse(kWorker, {"--kv-transfer-config", "{nope"})));
  EXPECT_FALSE(CheckWorkerSyntax(*Parse(kWorker, {"--kv-transfer-config", "[]"})));
  EXPECT_TRUE(CheckWorkerSyntax(*Parse(kWorker, {"--kv-transfer-config", "{}"})));
}

TEST(WorkerOptions, EngineIsAutoNativeOrMock) {
  const std::string path = testing::TempDir() + "engine-choice.gguf";  // only looked for
  std::ofstream(path) << "GGUF";
  const auto with = [&](const std::string& engine) {
    const auto options = MakeWorkerOptions(*Parse(kWorker, {"--model", path, "--engine", engine}));
    EXPECT_TRUE(options) << options.error().message;
    return options ? *options : engine::WorkerOptions{};
  };
  EXPECT_EQ(with("auto").engine, engine::EngineKind::kNative);
  EXPECT_TRUE(with("auto").refuse_large_model);
  EXPECT_EQ(with("native").engine, engine::EngineKind::kNative);
  EXPECT_FALSE(with("native").refuse_large_model);
  EXPECT_EQ(with("mock").engine, engine::EngineKind::kMock);
  EXPECT_FALSE(Parse(kWorker, {"--engine", "vllm"}));
}

TEST(ServeOptions, OnlyTheMockEngineNeedsNoModel) {
  const auto missing = CheckModelGiven(*Parse(kServe, {}));
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("tandem serve path/to/model.gguf"), std::string::npos);
  EXPECT_TRUE(CheckModelGiven(*Parse(kServe, {"m.gguf"})));
  EXPECT_TRUE(CheckModelGiven(*Parse(kServe, {"--engine", "mock"})));
  EXPECT_FALSE(CheckModelGiven(*Parse(kRun, {})));
}

TEST(WorkerOptions, ChatTemplates) {
  const std::string path = testing::TempDir() + "template-option.jinja";
  std::ofstream(path) << "{{ messages }}\n";
  const auto read = [](Words words) {
    const auto parsed = Parse(kWorker, words);
    EXPECT_TRUE(parsed) << ErrorOf(parsed);
    const auto text = ReadTemplateOption(*parsed);
    return text ? *text : "error: " + text.error().message;
  };
  EXPECT_EQ(read({}), "");
  EXPECT_EQ(read({"--chat-template", path}), "{{ messages }}\n");
  EXPECT_EQ(read({"--custom-jinja-template", path}), "{{ messages }}\n");
  setenv("TEMPLATE_OPTION_TEST", testing::TempDir().c_str(), 1);
  EXPECT_EQ(read({"--custom-jinja-template", "$TEMPLATE_OPTION_TEST/template-option.jinja"}),
            "{{ messages }}\n");
  EXPECT_EQ(read({"--custom-jinja-template", "${TEMPLATE_OPTION_TEST}template-option.jinja"}),
            "{{ messages }}\n");
  EXPECT_EQ(read({"--chat-template", "{{ 'a' }}\\n{{ \"b\" }}"}), "{{ 'a' }}\n{{ \"b\" }}");
  EXPECT_NE(read({"--chat-template", "no-such.jinja"}).find("no such file"), std::string::npos);
  EXPECT_NE(read({"--custom-jinja-template", "{{ a }}"}).find("no such file"), std::string::npos);
  EXPECT_NE(read({"--chat-template", path, "--custom-jinja-template", path}).find("exclude"),
            std::string::npos);
}

TEST(Nearest, FindsTypingMistakesAndParts) {
  const std::array<std::string_view, 3> names = {"http-port", "router-mode", "disaggregation-mode"};
  EXPECT_EQ(Nearest("htpt-port", names), "http-port");
  EXPECT_EQ(Nearest("disaggregation", names), "disaggregation-mode");
  EXPECT_EQ(Nearest("zzzzzz", names), "");
  const std::array<std::string_view, 4> more = {"mock-prefill-token-us", "is-prefill-worker",
                                                "prefill", "model"};
  EXPECT_EQ(Nearest("prefil", more), "prefill");
  EXPECT_EQ(Nearest("modle", more), "model");
  EXPECT_EQ(Nearest("prefill-worker", more), "is-prefill-worker");
  EXPECT_EQ(Nearest("token-us", more), "mock-prefill-token-us");
  EXPECT_EQ(EditDistance("ab", "ba"), 1u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
}

TEST(Help, TeachesEveryOptionOfEachCommand) {
  for (const CommandSpec& command : Commands()) {
    const std::string help = RenderHelp(command.command);
    EXPECT_NE(help.find("examples:"), std::string::npos);
    for (const OptionSpec* option : OptionsOf(command.command)) {
      EXPECT_EQ(help.find("--" + std::string(option->name)) == std::string::npos, option->hidden)
          << option->name;
      EXPECT_FALSE(option->help.empty()) << option->name;
      EXPECT_FALSE(option->group.empty()) << option->name;
    }
    EXPECT_NE(RenderOverview().find(command.name), std::string::npos);
  }
}

TEST(Help, TheOptionsPageIsUpToDate) {
  const std::string path = std::string(kSourceDir) + "/docs/options.md";
  if (std::getenv("TANDEM_UPDATE_DOCS") != nullptr) std::ofstream(path) << RenderMarkdown();
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), RenderMarkdown()) << "run TANDEM_UPDATE_DOCS=1 apps_test";
}

}  // namespace
}  // namespace tandem::apps
