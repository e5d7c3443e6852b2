// speedyctl: the command line of SpeedyLoader. Reads the arguments and calls a verb.
//
// Exit status: 0 good, 1 the run failed, 2 wrong use, 130 interrupted. Results go to stdout, everything else
// to stderr.
#include <CLI/CLI.hpp>
#include <iostream>

#include "bindings/cli/look.h"
#include "bindings/cli/quarantine.h"
#include "bindings/cli/run.h"
#include "bindings/cli/scan.h"
#include "bindings/cli/self_test.h"
#include "bindings/cli/trace.h"

namespace {

using namespace sl::cli;

void add_run(CLI::App& app, RunOptions& options, int& exit_status) {
    CLI::App* verb = app.add_subcommand("run", "stream epochs of a folder or a spec, then sum up");
    verb->add_option("source", options.source, "folder of images, or file with a JSON spec")
        ->required()
        ->option_text("SPEC|FOLDER");
    verb->add_option("--epochs", options.changes.epochs, "how many")->check(CLI::PositiveNumber);
    verb->add_option("--batch", options.changes.batch, "samples a batch")->check(CLI::PositiveNumber);
    verb->add_option("--seed", options.changes.seed, "of order and augmentation")
        ->check(CLI::NonNegativeNumber);
    verb->add_option("--profile", options.changes.profile,
                     "pillow: the bytes of Pillow up to 12; pillow13; fast: near them")
        ->check(CLI::IsMember({"pillow", "pillow13", "fast"}));
    verb->add_option("--policy", options.changes.policy, "strict: planned order; ready: as they finish")
        ->check(CLI::IsMember({"strict", "ready"}));
    verb->add_option("--limit-batches", options.limit_batches, "stop after so many")
        ->check(CLI::PositiveNumber);
    CLI::Option* socket = verb->add_option("--socket", options.socket, "the daemon's socket");
    verb->add_option("--reconnect", options.reconnect,
                     "seconds in which another daemon is looked for if this one is lost; 0: none; else 5")
        ->check(CLI::NonNegativeNumber);
    verb->add_option("--workers", options.workers, "start a daemon for this run with so many workers")
        ->check(CLI::PositiveNumber)
        ->excludes(socket);
    verb->add_flag("--json", options.json, "one JSON object on stdout");
    verb->add_flag("--hash", options.hash, "SHA-256 of each epoch's batches");
    verb->add_flag("--ids", options.ids, "sample ids of each epoch, in the order they came")
        ->needs(verb->get_option("--json"));
    verb->callback([&options, &exit_status] { exit_status = run(options); });
}

struct LookOptions {
    std::string folder;
    std::string socket;
    bool json = false;
};

void add_look(CLI::App* verb, LookOptions& options) {
    verb->add_option("--socket", options.socket, "the daemon's socket");
    verb->add_flag("--json", options.json, "one JSON object on stdout");
}

void add_verdict(CLI::App& app, LookOptions& options, double& seconds, int& exit_status) {
    CLI::App* verb = app.add_subcommand("verdict", "is loading the bottleneck, and which stage");
    add_look(verb, options);
    verb->add_option("--seconds", seconds, "how long to watch")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    verb->callback([&] { exit_status = verdict(options.socket, seconds, options.json); });
}

void add_top(CLI::App& app, TopOptions& options, int& exit_status) {
    CLI::App* verb = app.add_subcommand("top", "streams, stages, lanes and memory; refreshes; q ends it");
    verb->add_option("--socket", options.socket, "the daemon's socket");
    verb->add_option("--interval", options.interval, "seconds between two pictures")
        ->check(CLI::Range(0.1, 3600.0))
        ->capture_default_str();
    verb->add_flag("--once", options.once, "one picture and out");
    verb->add_flag("--json", options.json, "status and verdict as one JSON object on stdout, once");
    verb->callback([&] { exit_status = top(options); });
}

void add_trace(CLI::App& app, TraceOptions& options, int& exit_status) {
    CLI::App* verb = app.add_subcommand("trace", "the daemon's last seconds, for ui.perfetto.dev");
    verb->add_option("-o,--output", options.output, "file, or - for stdout")->capture_default_str();
    verb->add_option("--seconds", options.seconds, "only the last so many; otherwise all that is kept")
        ->check(CLI::PositiveNumber);
    verb->add_option("--socket", options.socket, "the daemon's socket");
    verb->add_flag("--json", options.json, "what was written, as one JSON object on stdout");
    verb->callback([&] { exit_status = trace(options); });
}

struct QuarantineOptions {
    std::vector<std::string> paths;
    bool all = false;
    bool json = false;
};

void add_quarantine(CLI::App& app, QuarantineOptions& options, int& exit_status) {
    CLI::App* verb = app.add_subcommand("quarantine", "samples that are known to be bad");
    verb->require_subcommand(1);
    CLI::App* list = verb->add_subcommand("list", "which, why, since when");
    list->add_flag("--json", options.json, "one JSON object on stdout");
    list->callback([&] { exit_status = list_quarantine(options.json); });
    CLI::App* forgive = verb->add_subcommand("forgive", "have them tried again");
    CLI::Option* paths = forgive->add_option("paths", options.paths, "files, or folders with all below them");
    forgive->add_flag("--all", options.all, "everything")->excludes(paths);
    forgive->add_flag("--json", options.json, "one JSON object on stdout");
    forgive->callback([&] { exit_status = forgive_quarantine(options.paths, options.all, options.json); });
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("SpeedyLoader's command line", "speedyctl");
    app.set_version_flag("--version", sl_version());
    app.require_subcommand(0, 1);
    int exit_status = kExitGood;

    RunOptions run_options;
    add_run(app, run_options, exit_status);

    LookOptions look;
    CLI::App* status_verb = app.add_subcommand("status", "what the running daemon does");
    add_look(status_verb, look);
    status_verb->callback([&] { exit_status = status(look.socket, look.json); });

    CLI::App* scan_verb =
        app.add_subcommand("scan", "make or refresh a folder's manifest, and say what was found");
    scan_verb->add_option("folder", look.folder, "folder of images")->required();
    add_look(scan_verb, look);
    scan_verb->callback([&] { exit_status = scan(look.folder, look.socket, look.json); });

    std::string tested_daemon;
    CLI::App* self_test_verb = app.add_subcommand(
        "self-test", "stream known pictures through a daemon of its own, compare every byte");
    self_test_verb->add_option("--daemon", tested_daemon,
                               "the program (default: as any client would find it)");
    self_test_verb->callback([&] { exit_status = self_test(tested_daemon); });

    double verdict_seconds = 3;
    add_verdict(app, look, verdict_seconds, exit_status);
    TopOptions top_options;
    add_top(app, top_options, exit_status);
    TraceOptions trace_options;
    add_trace(app, trace_options, exit_status);

    QuarantineOptions quarantine;
    add_quarantine(app, quarantine, exit_status);

    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitGood : kExitUsage;
    } catch (const std::exception& error) {
        // From the JSON library, if a daemon's document is not what this version expects.
        std::cerr << "speedyctl: " << error.what() << "\n";
        return kExitFailed;
    }
    if (app.get_subcommands().empty()) {
        std::cerr << app.help();
        return kExitUsage;
    }
    return exit_status;
}
