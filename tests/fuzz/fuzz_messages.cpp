// Fuzzes the daemon's side of the protocol: a real server and conductor, whose clients say what the input
// says: messages of any type and length, with and without descriptors, well-formed ones among them so that
// the conversation gets somewhere, orders of items, return pages and guests' rings that are scribbled over,
// and hanging up at any point.
//
// The daemon runs in a thread. After each input an honest client must be served.
#include <fcntl.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "daemon/broker/server.h"
#include "shm/socket.h"
#include "tests/fuzz/connector.h"

namespace {

using namespace sl;

UniqueFd bound_listener(sockaddr_un& address, socklen_t& length) {
    address.sun_family = AF_UNIX;  // nameless so far: the kernel draws an abstract one
    UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener.get(), generic, sizeof address.sun_family) != 0) broken("bind");
    length = sizeof address;
    if (::getsockname(listener.get(), generic, &length) != 0 || ::listen(listener.get(), 64) != 0)
        broken("listen");
    return listener;
}

// Never ends: the process does.
class Daemon {
  public:
    Daemon() {
        spdlog::set_level(spdlog::level::off);
        auto loop = EventLoop::create();
        if (!loop) broken("no event loop");
        loop_ = std::move(*loop);
        const char* worker = std::getenv("SL_WORKER");
        ConductorOptions options;
        options.worker_program = worker != nullptr ? worker : "speedyloader-worker";
        options.memory_bytes = 32U << 20;  // what an opening reserves takes time
        options.input_bytes = 1U << 20;
        options.reader.backend = ReaderBackend::kThreads;
        options.boot_id = 1;
        auto conductor = Conductor::create(*loop_, options);
        if (!conductor) broken(conductor.error().message.c_str());
        conductor_ = std::move(*conductor);
        auto server = Server::create(*loop_, *conductor_, bound_listener(address_, length_),
                                     {.socket_name = "fuzz", .worker_program = options.worker_program});
        if (!server) broken(server.error().message.c_str());
        server_ = std::move(*server);
        std::thread([this] { loop_->run(); }).detach();
    }

    UniqueFd connect() { return hostile_.connect(address_, length_); }
    // By a process that is not killed for what the others do.
    UniqueFd connect_honestly() { return honest_.connect(address_, length_); }

  private:
    std::unique_ptr<EventLoop> loop_;
    std::unique_ptr<Conductor> conductor_;
    std::unique_ptr<Server> server_;
    Connector hostile_;
    Connector honest_;
    sockaddr_un address_{};
    socklen_t length_ = 0;
};

UniqueFd file_with(const std::vector<std::uint8_t>& bytes, int seals) {
    UniqueFd fd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::write(fd.get(), bytes.data(), bytes.size()) < 0) broken("write");
    ::fcntl(fd.get(), F_ADD_SEALS, seals);
    return fd;
}

// Whatever it is, with up to four descriptors. What the daemon makes of it shows later.
void send_raw(int socket, std::span<const std::uint8_t> bytes, std::span<const int> fds) {
    iovec part{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 4)] = {};
    if (!fds.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
    }
    static_cast<void>(::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

// One connection, and what the daemon has sent over it.
class Intruder {
  public:
    explicit Intruder(Daemon& daemon) : socket_(daemon.connect()) {}

    void act(FuzzedDataProvider& input) {
        switch (input.ConsumeIntegralInRange(0, 9)) {
            case 0:
                return hello(input);
            case 1:
                return any_message(input);
            case 2:
                return any_packet(input);
            case 3:
            case 4:
                return open(input);
            case 5:
                return items(input);
            case 6:
                return scribble(input);
            case 7:
                return guest(input);
            case 8:
                return about_a_stream(input);
            default:
                return read_replies();
        }
    }

  private:
    void hello(FuzzedDataProvider& input) {
        auto message = make_message<sl_msg_hello>(SL_MSG_HELLO, 1);
        message.role = input.ConsumeIntegralInRange(0U, 4U);
        static_cast<void>(send_struct(socket_.get(), message));
    }

    void any_message(FuzzedDataProvider& input) {
        sl_message head{};
        head.type = input.ConsumeIntegralInRange(0U, 20U);
        head.request = input.ConsumeIntegral<std::uint32_t>();
        head.major = input.ConsumeBool() ? SL_SHM_MAJOR : input.ConsumeIntegral<std::uint16_t>();
        const auto body = input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(0, 300));
        head.length = static_cast<std::uint32_t>(sizeof head + body.size());
        std::vector<std::uint8_t> bytes(sizeof head);
        std::memcpy(bytes.data(), &head, sizeof head);
        bytes.insert(bytes.end(), body.begin(), body.end());
        send(input, bytes);
    }

    void any_packet(FuzzedDataProvider& input) {
        const auto most = input.ConsumeBool() ? std::size_t{64} : std::size_t{SL_MESSAGE_MAX} + 64;
        std::vector<std::uint8_t> bytes(input.ConsumeIntegralInRange<std::size_t>(0, most));
        const auto start = input.ConsumeBytes<std::uint8_t>(std::min<std::size_t>(bytes.size(), 64));
        std::ranges::copy(start, bytes.begin());
        send(input, bytes);
    }

    void send(FuzzedDataProvider& input, std::span<const std::uint8_t> bytes) {
        UniqueFd file;
        std::array<int, 4> fds{};
        const auto count = input.ConsumeIntegralInRange<std::size_t>(0, 5);
        if (count == 0 || count > fds.size()) return send_raw(socket_.get(), bytes, {});
        file = file_with({}, 0);
        fds.fill(file.get());
        send_raw(socket_.get(), bytes, std::span(fds).first(count));
    }

    void open(FuzzedDataProvider& input) {
        static constexpr const char* kSpecs[] = {
            R"({"dataset":{"kind":"items","count":4,"name":"x","crew":"00000000000000a1","epoch":0},)"
            R"("rows":[{"name":"x","dtype":"uint8","shape":[64]}],"batch":{"size":2,"last":"keep"},"order":{"shuffle":false}})",
            R"({"dataset":{"kind":"items","count":4,"name":"x","crew":"00000000000000a1","epoch":0},)"
            R"("rows":[{"name":"x","dtype":"bytes","shape":[256]}],"batch":{"size":2,"last":"keep"},"order":{"shuffle":false}})",
            R"({"dataset":{"kind":"image_folder","path":"/nonexistent"},"pipeline":[{"op":"decode","channels":3},)"
            R"({"op":"resize","size":[8,8]}],"batch":{"size":2},"output":{"dtype":"uint8","layout":"NHWC"}})",
            ""};
        const std::string spec = kSpecs[input.ConsumeIntegralInRange<std::size_t>(0, std::size(kSpecs) - 1)];
        const std::string text = spec.empty() ? input.ConsumeRandomLengthString(400) : spec;
        const std::string state = input.ConsumeBool() ? input.ConsumeRandomLengthString(300) : "";
        auto message = make_message<sl_msg_open>(SL_MSG_OPEN, 2);
        message.slots = input.ConsumeIntegralInRange(0U, 300U);
        message.flags = input.ConsumeIntegralInRange(0U, 4U);
        message.spec_bytes = static_cast<std::uint32_t>(text.size());
        message.state_bytes = static_cast<std::uint32_t>(state.size());
        if (input.ConsumeIntegralInRange(0, 9) == 0)
            message.spec_bytes = input.ConsumeIntegral<std::uint32_t>();
        const std::string body = text + state;
        static_cast<void>(send_struct(socket_.get(), message, std::as_bytes(std::span(body))));
    }

    void items(FuzzedDataProvider& input) {
        std::vector<std::uint8_t> bytes(4 * sizeof(std::uint64_t));
        for (std::size_t i = 0; i < 4; ++i)
            bytes[i * 8] = static_cast<std::uint8_t>(i);
        if (input.ConsumeBool()) bytes = input.ConsumeBytes<std::uint8_t>(128);
        auto message = make_message<sl_msg_items>(SL_MSG_ITEMS, 0);
        message.count = input.ConsumeBool() ? 4 : input.ConsumeIntegral<std::uint64_t>();
        message.has_hints = input.ConsumeIntegralInRange(0U, 1U);
        message.part = input.ConsumeIntegralInRange(0U, 3U);
        static_cast<void>(send_struct(socket_.get(), message, std::as_bytes(std::span(bytes))));
    }

    void guest(FuzzedDataProvider& input) {
        auto message = make_message<sl_msg_guest>(SL_MSG_GUEST, 3);
        message.crew = input.ConsumeBool() ? 0xa1 : input.ConsumeIntegral<std::uint64_t>();
        message.workers = input.ConsumeIntegralInRange(0U, 300U);
        static_cast<void>(send_struct(socket_.get(), message));
    }

    void about_a_stream(FuzzedDataProvider& input) {
        static constexpr std::uint32_t kTypes[] = {SL_MSG_CLOSE, SL_MSG_REPORT, SL_MSG_MAPPED, SL_MSG_FORGET};
        auto message = make_message<sl_msg_stream>(kTypes[input.ConsumeIntegralInRange(0, 3)], 4);
        message.stream_id = input.ConsumeBool() ? stream_ : input.ConsumeIntegral<std::uint64_t>();
        static_cast<void>(send_struct(socket_.get(), message));
    }

    // Waits a moment for the first of them, or the daemon would never be seen to answer.
    void read_replies() {
        static_cast<void>(readable(socket_.get(), 1));
        std::string why;
        for (int i = 0;
             i < 16 && receive(socket_.get(), *packet_, why, Carry::kDescriptor) == Received::kMessage; ++i)
            keep();
    }

    void keep() {
        if (const auto* opened = packet_->as<sl_msg_open_reply>();
            opened != nullptr && packet_->head().type == SL_MSG_OPEN_REPLY) {
            stream_ = opened->stream_id;
        }
        const auto* segment = packet_->as<sl_msg_segment>();
        if (segment == nullptr || packet_->head().type != SL_MSG_SEGMENT || !packet_->fd) return;
        if (segment->kind == SL_SEGMENT_WAKE) bell_ = std::move(packet_->fd);
        const bool is_writable = segment->kind == SL_SEGMENT_RETURNS || segment->kind == SL_SEGMENT_CHANNEL ||
                                 segment->kind == SL_SEGMENT_SAMPLES || segment->kind == SL_SEGMENT_ROWS;
        if (!is_writable || segment->bytes == 0) return;
        auto mapping = Mapping::map(packet_->fd.get(), segment->bytes, Access::kReadWrite);
        if (mapping) writable_.push_back(std::move(*mapping));
    }

    void scribble(FuzzedDataProvider& input) {
        if (!writable_.empty()) {
            const Mapping& page =
                writable_[input.ConsumeIntegralInRange<std::size_t>(0, writable_.size() - 1)];
            const auto bytes =
                input.ConsumeBytes<std::uint8_t>(input.ConsumeIntegralInRange<std::size_t>(1, 64));
            // Words that matter lie at the start; the rest is reached too.
            const std::size_t end =
                std::min<std::size_t>(page.size(), input.ConsumeBool() ? 512 : page.size());
            const auto at = input.ConsumeIntegralInRange<std::size_t>(0, end - std::min(end, bytes.size()));
            std::memcpy(page.data() + at, bytes.data(), std::min(bytes.size(), page.size() - at));
        }
        if (bell_) static_cast<void>(::eventfd_write(bell_.get(), 1));
    }

    UniqueFd socket_;
    UniqueFd bell_;
    std::uint64_t stream_ = 0;
    std::vector<Mapping> writable_;
    std::unique_ptr<Packet> packet_ = std::make_unique<Packet>();
};

// STATUS of an honest client.
void check_service(Daemon& daemon) {
    UniqueFd socket = daemon.connect_honestly();
    auto hello = make_message<sl_msg_hello>(SL_MSG_HELLO, 1);
    hello.role = SL_ROLE_CLIENT;
    if (!send_struct(socket.get(), hello)) broken("an honest client cannot say HELLO");
    static Packet packet;
    for (const std::uint32_t wanted : {SL_MSG_HELLO_REPLY, SL_MSG_DOCUMENT}) {
        if (!readable(socket.get(), 20'000)) broken("an honest client is not answered");
        std::string why;
        if (receive(socket.get(), packet, why, Carry::kDescriptor) != Received::kMessage ||
            packet.head().type != wanted)
            broken("an honest client gets another answer");
        auto status = make_message<sl_msg_hello>(SL_MSG_STATUS, 2);
        static_cast<void>(send_message(socket.get(), &status.head, sizeof status.head));
    }
    packet.fd.reset();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Daemon& daemon = *new Daemon;
    // Its thread still runs when the process ends, and nothing may be taken from under it.
    [[maybe_unused]] static const int ends_at_once = std::atexit([] { ::_exit(0); });
    FuzzedDataProvider input(data, size);
    {
        std::vector<std::unique_ptr<Intruder>> intruders;
        intruders.push_back(std::make_unique<Intruder>(daemon));
        for (int actions = 0; actions < 24 && input.remaining_bytes() > 0; ++actions) {
            if (intruders.size() < 4 && input.ConsumeIntegralInRange(0, 9) == 0)
                intruders.push_back(std::make_unique<Intruder>(daemon));
            intruders[input.ConsumeIntegralInRange<std::size_t>(0, intruders.size() - 1)]->act(input);
        }
    }
    check_service(daemon);
    return 0;
}
