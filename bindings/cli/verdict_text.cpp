// What the verdict says, for people and for programs; see verdict.h.
#include <cmath>
#include <cstdio>

#include "bindings/cli/verdict.h"

namespace sl::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string percent(double share) {
    return std::to_string(std::lround(share * 100)) + " percent";
}

std::string rate(double value) {
    return std::to_string(std::lround(value)) + " samples/s";
}

std::string fixed(double value, int digits) {
    char text[48];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string ms(double seconds) {
    return fixed(seconds * 1e3, seconds < 0.0995 ? 2 : 0) + " ms";
}

const StageLoad& of(const Verdict& verdict, Stage stage) {
    for (const StageLoad& load : verdict.stages) {
        if (load.stage == stage) return load;
    }
    return verdict.stages.front();
}

std::string counted(double number, const char* one, const char* many) {
    return fixed(number, 0) + " " + (number == 1 ? one : many);
}

// The stage, how busy it is, and the others beside it.
std::string which_stage(const Verdict& verdict) {
    const StageLoad& load = of(verdict, verdict.bottleneck);
    std::string text = verdict.saturated ? "What limits it is " : "No stage is busy all the time; most is ";
    switch (verdict.bottleneck) {
        case Stage::kDecode:
            text += "decoding: " + counted(load.servers, "worker is", "workers are") + " busy " +
                    percent(load.utilisation) + " of the time, " + ms(load.demand) + " a sample";
            break;
        case Stage::kRead:
            text += "reading: files are under way " + percent(load.utilisation) + " of the time, " +
                    fixed(verdict.reads_under_way, 1) + " at once, " + ms(verdict.read_seconds) + " each";
            break;
        case Stage::kAssemble:
            text += "assembly: " + counted(load.servers, "thread is", "threads are") + " busy " +
                    percent(load.utilisation) + " of the time, " + ms(load.demand) + " a row";
            break;
        default:
            text += "the daemon's own thread: it is busy " + percent(load.utilisation) + " of the time";
    }
    text += " (";
    bool first = true;
    for (const StageLoad& other : verdict.stages) {
        if (other.stage == verdict.bottleneck) continue;
        text += std::string(first ? "" : ", ") + name_of(other.stage) + " " + percent(other.utilisation);
        first = false;
    }
    return text + ").";
}

std::string what_would_help(const Verdict& verdict) {
    auto most = [](const Bound& bound) {
        return "at most " + rate(bound.samples_per_s) + ", " + fixed(bound.gain, 2) + " times as many";
    };
    switch (verdict.bottleneck) {
        case Stage::kDecode:
            if (verdict.samples_per_s <= 0) return "No batch came while this looked: look for longer.";
            if (verdict.idle_cores >= 0.5)
                return "One more worker gives " + most(verdict.one_more_worker) + ".";
            return "Hardly a core is idle (" + fixed(verdict.idle_cores, 1) +
                   "), so one more worker alone gives " + most(verdict.one_more_worker) +
                   "; one more core with a worker on it " + most(verdict.one_more_core) + ".";
        case Stage::kRead:
            return "More workers or cores give nothing; faster storage does, up to what the workers can "
                   "decode, " +
                   rate(of(verdict, Stage::kDecode).most) + ".";
        case Stage::kAssemble:
            return "A worker or core more gives nothing; a smaller output does (uint8 or float16), or the "
                   "daemon's "
                   "next assembler thread, which comes with every fourth worker.";
        default:
            return "A worker or core more gives nothing.";
    }
}

}  // namespace

const char* name_of(Stage stage) {
    constexpr const char* kNames[] = {"none", "consumer", "conductor", "assemble", "decode", "read"};
    return kNames[static_cast<std::size_t>(stage)];
}

std::vector<std::string> sentences(const Verdict& verdict) {
    const std::string now = rate(verdict.samples_per_s);
    if (verdict.bottleneck == Stage::kNone)
        return {"No job asked for data in these " + fixed(verdict.seconds, 1) +
                " s: there is nothing to judge."};
    if (verdict.bottleneck == Stage::kConsumer) {
        std::vector<std::string> said = {"Loading is not the bottleneck: the job waits " +
                                         percent(verdict.wait_share) + " of its time for data and takes " +
                                         now + "."};
        if (verdict.loader_most > verdict.samples_per_s)
            said.push_back("Loading as it is could give up to " + rate(verdict.loader_most) + ".");
        said.push_back("A worker or core more for loading gives nothing.");
        return said;
    }
    return {"Loading is the bottleneck: the job waits " + percent(verdict.wait_share) +
                " of its time for data and gets " + now + ".",
            which_stage(verdict), what_would_help(verdict)};
}

Json verdict_json(const Verdict& verdict) {
    auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
    Json stages = Json::object();
    for (const StageLoad& load : verdict.stages) {
        stages[name_of(load.stage)] = {{"servers", load.servers},
                                       {"utilisation", load.utilisation},
                                       {"ms_per_sample", known(load.demand * 1e3)},
                                       {"at_most_samples_per_s", known(load.most)}};
    }
    Json streams = Json::array();
    for (const StreamLoad& load : verdict.streams) {
        streams.push_back({{"id", load.id},
                           {"dataset", load.dataset},
                           {"samples_per_s", load.samples_per_s},
                           {"wait_share", load.wait_share},
                           {"ring_full_share", load.full_share}});
    }
    auto bound = [](const Bound& from) {
        return Json{{"samples_per_s", from.samples_per_s}, {"gain", from.gain}};
    };
    return {{"seconds", verdict.seconds},
            {"loading_is_the_bottleneck",
             verdict.bottleneck != Stage::kNone && verdict.bottleneck != Stage::kConsumer},
            {"bottleneck", name_of(verdict.bottleneck)},
            {"saturated", verdict.saturated},
            {"samples_per_s", verdict.samples_per_s},
            {"wait_share", verdict.wait_share},
            {"loader_at_most_samples_per_s", known(verdict.loader_most)},
            {"stages", stages},
            {"streams", streams},
            {"reads_under_way", verdict.reads_under_way},
            {"read_ms", verdict.read_seconds * 1e3},
            {"idle_cores", verdict.idle_cores},
            {"one_more_worker", bound(verdict.one_more_worker)},
            {"one_more_core", bound(verdict.one_more_core)},
            {"text", sentences(verdict)}};
}

}  // namespace sl::cli
