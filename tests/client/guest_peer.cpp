// See guest_peer.h.
#include "tests/client/guest_peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <thread>

#include "shm/wake.h"

namespace sl {

namespace {

// Also off the test's thread, where cmocka cannot fail a test.
void require(bool held, const char* what) {
    if (held) return;
    std::fprintf(stderr, "the peer: %s\n", what);
    std::abort();
}

bool wait_readable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, kPatienceMs) == 1;
}

}  // namespace

Segment sealed(const char* name, std::uint64_t bytes) {
    auto made = Segment::create(name, bytes);
    require(made && made->seal_size(), "cannot make a segment");
    return std::move(*made);
}

sl_shm_item_layout two_fields() {
    sl_shm_item_layout layout{};
    layout.fields = 2;
    layout.slot_bytes = 512;
    layout.field[0] = {64, 12};
    layout.field[1] = {128, 100};
    return layout;
}

sl_shm_item_layout opaque_field() {
    sl_shm_item_layout layout{};
    layout.fields = 1;
    layout.flags = SL_SHM_ITEM_OPAQUE;
    layout.slot_bytes = 512;
    layout.field[0] = {64, 300};
    return layout;
}

sl_shm_item_layout placed_fields() {
    sl_shm_item_layout layout = two_fields();
    layout.field[0] = {64, 128};
    layout.field[1] = {192, 12};
    layout.slots_offset = 4096;
    layout.batch_bytes = 4096;
    layout.batch_slots = 2;
    layout.rows = 4;
    layout.in_place = 1;
    layout.row_offset[1] = 1024;
    return layout;
}

sl_shm_item_layout collated_field() {
    sl_shm_item_layout layout = placed_fields();
    layout.fields = 1;
    layout.flags = SL_SHM_ITEM_OPAQUE;
    layout.field[0] = {64, 256};
    layout.field[1] = {};
    layout.row_offset[1] = 0;
    layout.valid_offset = 1024;
    layout.lengths_offset = 1280;
    layout.collated_offset = 1536;
    layout.collated_bytes = 100;
    return layout;
}

void assert_says(const char* part) {
    sl_error error{};
    error.struct_size = sizeof error;
    sl_last_error(&error);
    if (std::strstr(error.message, part) == nullptr) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
    }
}

std::int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

GuestPeer::GuestPeer() : path_("sl-guest-peer-" + std::to_string(::getpid()) + ".sock") {
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    require(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    require(::listen(listener_.get(), 4) == 0, "listen");
    channel_ = sealed("channel", sizeof(sl_shm_worker_channel));
    wake_ = std::move(*make_event_fd());
    jobs_ = JobProducer(channel()->jobs, &channel()->job_tail, &channel()->job_head);
    completions_ =
        CompletionConsumer(channel()->completions, &channel()->completion_tail, &channel()->completion_head);
}

GuestPeer::~GuestPeer() {
    ::unlink(path_.c_str());
}

void GuestPeer::close_listener() {
    listener_.reset();
}

sl_status GuestPeer::attach(sl_guest** guest, const std::function<void()>& greeting,
                            std::int64_t timeout_ms) {
    std::thread greeter(greeting);
    sl_connect_options options{};
    options.struct_size = sizeof options;
    options.socket = path_.c_str();
    options.timeout_ms = timeout_ms;
    const sl_status status = sl_guest_attach(&options, kCrew, 3, guest);
    greeter.join();
    return status;
}

const Packet& GuestPeer::hear() {
    std::string why;
    while (true) {
        switch (receive(socket_.get(), *packet_, why, Carry::kDescriptor)) {
            case Received::kNothing:
                require(wait_readable(socket_.get()), "no message in time");
                continue;
            case Received::kMalformed:
                require(false, why.c_str());
                continue;
            case Received::kClosed:
                packet_->length = 0;
                return *packet_;
            case Received::kMessage:
                return *packet_;
        }
    }
}

void GuestPeer::accept_hello() {
    socket_.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const Packet& hello = hear();
    require(hello.head().type == SL_MSG_HELLO && hello.as<sl_msg_hello>() != nullptr, "no HELLO");
    hello_ = *hello.as<sl_msg_hello>();
    auto reply = make_message<sl_msg_hello_reply>(SL_MSG_HELLO_REPLY, hello.head().request);
    require(send_struct(socket_.get(), reply).has_value(), "cannot answer HELLO");
    const Packet& guest = hear();
    require(guest.head().type == SL_MSG_GUEST && guest.as<sl_msg_guest>() != nullptr, "no GUEST");
    guest_ = *guest.as<sl_msg_guest>();
}

void GuestPeer::greet() {
    accept_hello();
    send_segment(SL_SEGMENT_CHANNEL, 0, channel_.size(), channel_.writable_fd());
    send_segment(SL_SEGMENT_WAKE, 0, 0, wake_.get());
}

void GuestPeer::send_segment(std::uint32_t kind, std::uint64_t stream, std::uint64_t bytes, int fd) {
    auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, 0);
    message.stream_id = stream;
    message.kind = kind;
    message.bytes = bytes;
    require(send_struct(socket_.get(), message, {}, fd).has_value(), "cannot send a segment");
}

void GuestPeer::send_layout(std::uint64_t stream, const sl_shm_item_layout& layout, std::uint32_t stated) {
    auto message = make_message<sl_msg_pipeline>(SL_MSG_PIPELINE, 0);
    message.stream_id = stream;
    message.pipeline_bytes = stated;
    require(send_struct(socket_.get(), message, std::as_bytes(std::span(&layout, 1))).has_value(),
            "cannot send a layout");
}

void GuestPeer::forget(std::uint64_t stream) {
    auto message = make_message<sl_msg_stream>(SL_MSG_FORGET, 0);
    message.stream_id = stream;
    require(send_struct(socket_.get(), message).has_value(), "cannot send FORGET");
    told();
}

void GuestPeer::announce(std::uint64_t stream, const sl_shm_item_layout& layout, const Segment& samples,
                         const Segment* rows) {
    send_layout(stream, layout);
    if (rows != nullptr) send_segment(SL_SEGMENT_ROWS, stream, rows->size(), rows->writable_fd());
    send_segment(SL_SEGMENT_SAMPLES, stream, samples.size(), samples.writable_fd());
    told();
}

void GuestPeer::told() {
    sl_shm_store_release_u32(&channel()->messages, ++messages_);  // CONTROL
    call();
}

void GuestPeer::give(const sl_shm_job& job) {
    jobs_.push(job);
    call();
}

void GuestPeer::call() {
    sl_shm_store_release_u32(&channel()->calls, ++calls_);
    sl_shm_fence_seq_cst();  // SLEEP pair: calls before worker_sleeps
    if (sl_shm_load_seq_cst_u32(&channel()->worker_sleeps) != 0) futex_wake_all(&channel()->calls);
}

sl_shm_completion GuestPeer::take() {
    sl_shm_completion completion{};
    while (!completions_.pop(completion)) {
        require(!completions_.broken(), "the guest has garbled its ring");
        sl_shm_store_seq_cst_u32(&channel()->daemon_sleeps, 1);
        sl_shm_fence_seq_cst();  // SLEEP pair: daemon_sleeps before the look at completion_tail
        const bool found = completions_.pop(completion);
        const bool rung = found || wait_readable(wake_.get());
        sl_shm_store_relaxed_u32(&channel()->daemon_sleeps, 0);
        quiet(wake_.get());
        require(rung, "no answer in time");
        if (found) break;
    }
    return completion;
}

}  // namespace sl
