#include "daemon/observe/stream_json.h"

#include "daemon/plan/spec_names.h"

namespace sl {

namespace {

double seconds(std::uint64_t ns) {
    return static_cast<double>(ns) * 1e-9;
}

double ratio(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json lane_json(const sl_shm_stats& stats) {
    constexpr const char* kNames[] = {"light", "medium", "heavy"};
    Json lanes = Json::object();
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lanes[kNames[lane]] = {
            {"samples", stats.lane_samples[lane]},
            {"mean_ms", ratio(stats.lane_decode_ns[lane], stats.lane_samples[lane]) * 1e-6}};
    }
    return lanes;
}

Json consumer_json(const Stream& stream) {
    const BatchRing& ring = stream.ring();
    return {{"waits", ring.client_waits_since() != 0},
            {"waited_s", seconds(ring.client_waited_ns())},
            {"keeps_waits", ring.client_keeps_waits()},
            {"found_empty", ring.found_empty()},
            {"waited_for_s", seconds(stream.waited_for_consumer_ns())}};
}

Json slowest_json(const Stream& stream) {
    Json samples = Json::array();
    for (const SlowSample& sample : stream.flow.slowest.samples()) {
        std::string path;
        stream.dataset().path(sample.sample_id, path);
        samples.push_back({{"sample_id", sample.sample_id},
                           {"path", path},
                           {"ms", static_cast<double>(sample.cpu_ns) * 1e-6},
                           {"predicted_ms", sample.predicted_ns * 1e-6}});
    }
    return samples;
}

Json errors_json(const PredictionErrors& errors) {
    return {{"samples", errors.samples},
            {"mape", errors.mape()},
            {"bias", errors.bias()},
            {"class_errors", errors.class_error()}};
}

Json prediction_json(const Stream& stream) {
    const sl_shm_stats& stats = stream.ring().stats();
    const Predictor& predictor = stream.predictor();
    const PredictionReport& report = predictor.report();
    const CostClasses& classes = predictor.model().classes();
    return {{"mape", ratio(stats.absolute_error_ppm, stats.predicted) * 1e-6},
            {"class_errors", ratio(stats.class_errors, stats.predicted)},
            {"rank_correlation", report.rank_correlation()},
            {"start", errors_json(report.start())},
            {"first_epoch", errors_json(report.first_epoch())},
            {"warm", errors_json(report.warm())},
            {"typical_ms", predictor.typical_ns() * 1e-6},
            {"medium_from_ms", classes.medium_from_ns() * 1e-6},
            {"heavy_from_ms", classes.heavy_from_ns() * 1e-6},
            {"samples_known", predictor.model().history().known()}};
}

Json items_json(const Stream& stream) {
    const ItemOrder& order = *stream.dataset().items();
    return {{"crew", hex(stream.spec().items.crew)},
            {"epoch", stream.spec().items.epoch},
            {"nobody", order.nobodies()}};
}

}  // namespace

Json stream_json(const Stream& stream) {
    const sl_shm_stats& stats = stream.ring().stats();
    Json json = {{"id", stream.id()},
                 {"dataset", dataset_name(stream.spec())},
                 {"samples_in_dataset", stream.dataset().size()},
                 {"policy", stream.spec().order_policy == OrderPolicy::kStrict ? "strict" : "ready"},
                 {"batch_size", stream.spec().batch.size},
                 {"slots", stream.ring().layout().slot_count},
                 {"leased", stream.ring().leased()},
                 {"unread", stream.ring().unread()},
                 {"memory_bytes", stream.memory_bytes()},
                 {"batches", stats.batches},
                 {"samples", stats.samples},
                 {"failed", stats.failed},
                 {"substituted", stats.substituted},
                 {"decode_warnings", stats.warnings},
                 {"retried", stats.retried},
                 {"bytes_read", stats.bytes_read},
                 {"decode_cpu_seconds", static_cast<double>(stats.decode_ns) * 1e-9},
                 {"lanes", lane_json(stats)},
                 {"prediction", prediction_json(stream)},
                 {"slowest", slowest_json(stream)},
                 {"waits_for_consumer", stream.waits_for_consumer()},
                 {"consumer", consumer_json(stream)},
                 {"stopped", stream.stopped()}};
    if (stream.is_items()) json["items"] = items_json(stream);
    return json;
}

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sl
