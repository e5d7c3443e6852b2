// Fuzzes the client library against a daemon that lies: messages, headers, offsets, rings, layouts of items.
// The library must answer with a status, stay inside what it has mapped, and leave nothing behind; whatever
// it calls a tensor must be readable to its last byte, and whatever it gives a guest to write must be
// writable.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "speedyloader/speedyloader.h"
#include "tests/fuzz/hostile_daemon.h"

namespace {

constexpr std::int64_t kPatienceMs = 10;

std::string socket_path() {
    static const std::string folder = [] {
        std::string name = "/tmp/sl-fuzz-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        return name;
    }();
    static const int removed_at_exit = std::atexit([] { ::rmdir(folder.c_str()); });
    if (removed_at_exit != 0) std::abort();
    return folder + "/s";
}

template <class T>
T sized() {
    T made{};
    made.struct_size = sizeof made;
    return made;
}

volatile std::uint8_t sink;

void read_all(const sl_batch* batch) {
    std::uint32_t count = 0;
    if (sl_batch_tensor_count(batch, &count) != SL_OK) return;
    for (std::uint32_t i = 0; i < count; ++i) {
        auto tensor = sized<sl_tensor>();
        const char* name = nullptr;
        if (sl_batch_tensor_at(batch, i, &name, &tensor) != SL_OK) continue;
        for (std::uint64_t at = 0; at < tensor.bytes; ++at)
            sink = static_cast<const std::uint8_t*>(tensor.data)[at];
        if (std::strlen(name) == 0) sink = 0;
    }
    auto sample = sized<sl_sample_info>();
    for (std::uint32_t row = 0; sl_batch_sample(batch, row, &sample) == SL_OK; ++row) {
    }
}

void be_a_client(const sl_connect_options& options, bool by_sample) {
    sl_client* client = nullptr;
    if (sl_connect(&options, &client) != SL_OK) return;
    auto open = sized<sl_open_options>();
    open.timeout_ms = kPatienceMs;
    open.level = by_sample ? SL_LEVEL_SAMPLE : SL_LEVEL_BATCH;
    sl_stream* stream = nullptr;
    if (sl_open(client, "{}", 2, &open, &stream) == SL_OK) {
        for (int i = 0; i < 4; ++i) {
            sl_batch* batch = nullptr;
            const sl_status status =
                by_sample ? sl_next_sample(stream, 1, &batch, nullptr) : sl_next(stream, 1, &batch);
            if (status != SL_OK) continue;
            read_all(batch);
            if (i % 2 == 0) sl_batch_allow_writes(batch);
            sl_batch_release(batch);
        }
        auto stats = sized<sl_stats>();
        sl_stream_stats(stream, &stats);
        char state[SL_STATE_MAX];
        sl_stream_state(stream, state, sizeof state);
        char* report = nullptr;
        if (sl_stream_report(stream, &report) == SL_OK) sl_free(report);
        sl_close(stream);
    }
    char* status = nullptr;
    if (sl_client_status(client, &status) == SL_OK) sl_free(status);
    sl_disconnect(client);
}

void be_a_guest(const sl_connect_options& options) {
    sl_guest* guest = nullptr;
    if (sl_guest_attach(&options, 7, 1, &guest) != SL_OK) return;
    for (int i = 0; i < 4; ++i) {
        auto job = sized<sl_guest_job>();
        if (sl_guest_next(guest, 1, &job) != SL_OK) continue;
        for (std::uint32_t field = 0; field < job.field_count; ++field)
            std::memset(job.field[field], 1, job.field_bytes[field]);
        if (i % 2 == 0) {
            sl_guest_done(guest, &job, 0);
        } else {
            sl_guest_failed(guest, &job, "no");
        }
    }
    sl_guest_detach(guest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    FuzzedDataProvider input(data + 1, size - 1);
    const std::string path = socket_path();
    const sl::HostileDaemon daemon(path, input);
    auto options = sized<sl_connect_options>();
    options.socket = path.c_str();
    options.timeout_ms = kPatienceMs;
    options.reconnect_ms = SL_NO_RECONNECT;
    if (data[0] % 3 == 0) {
        be_a_guest(options);
    } else {
        be_a_client(options, data[0] % 3 == 1);
    }
    return 0;
}
