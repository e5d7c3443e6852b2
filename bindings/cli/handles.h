// The C API's handles with C++ lifetimes, and failures as values with the program's exit status.
//
// Used by every verb of speedyctl. One thread. A Failure is one sentence for stderr and an exit status:
// 1 the run failed, 2 wrong use.
#pragma once

#include <speedyloader/speedyloader.h>

#include <expected>
#include <memory>
#include <string>

namespace sl::cli {

inline constexpr int kExitGood = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // what a shell says of a program that SIGINT ended

struct Failure {
    int exit_status = kExitFailed;
    std::string message;
};

template <class T>
using Outcome = std::expected<T, Failure>;

struct Closer {
    void operator()(sl_client* client) const { sl_disconnect(client); }
    void operator()(sl_stream* stream) const { sl_close(stream); }
    void operator()(sl_batch* batch) const { sl_batch_release(batch); }
};
using Client = std::unique_ptr<sl_client, Closer>;
using Stream = std::unique_ptr<sl_stream, Closer>;
using Batch = std::unique_ptr<sl_batch, Closer>;

// The thread's last error as one sentence: name, message, and sample and path where there is one.
std::string last_error_text();

// That sentence with an exit status: 2 for a wrong spec or argument, 1 for everything else.
std::unexpected<Failure> failed(sl_status status);

// Empty socket: where sl_connect looks by itself. flags: SL_CONNECT_...; reconnect_ms: as sl_connect has it.
Outcome<Client> connect(const std::string& socket, std::uint32_t flags, std::int64_t reconnect_ms = 0);

// The daemon that runs already; none is started. "no daemon is running" is a failure.
Outcome<Client> connect_to_running(const std::string& socket);

// Says the failure on stderr and returns its exit status.
int complain(const Failure& failure);

// spec: JSON text. The stream belongs to the client's daemon and may outlive the handle's client.
Outcome<Stream> open(sl_client* client, const std::string& spec);

// The daemon's status and a stream's report as JSON text; empty text stands for a daemon that has gone.
std::string status_text(sl_client* client);
std::string report_text(sl_stream* stream);

}  // namespace sl::cli
