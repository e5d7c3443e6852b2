// An opening with an order of items: what the daemon is sent, and which orders never leave the library.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/guest_peer.h"

namespace sl {
namespace {

constexpr const char* kSpec = "{\"dataset\":{\"kind\":\"items\"}}";

// A daemon that takes one opening in and refuses it with words of its own.
class Refuser {
  public:
    Refuser() : path_("sl-items-peer-" + std::to_string(::getpid()) + ".sock") {
        ::unlink(path_.c_str());
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path_.c_str());
        listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        assert_int_equal(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        assert_int_equal(::listen(listener_.get(), 1), 0);
        thread_ = std::thread([this] { serve(); });
        sl_connect_options options{};
        options.struct_size = sizeof options;
        options.socket = path_.c_str();
        assert_int_equal(sl_connect(&options, &client_), SL_OK);
    }
    ~Refuser() {
        sl_disconnect(client_);
        if (thread_.joinable()) thread_.join();
        ::unlink(path_.c_str());
    }
    sl_status open(const sl_items* given) {
        sl_open_options options{};
        options.struct_size = sizeof options;
        options.items = given;
        sl_stream* stream = nullptr;
        return sl_open(client_, kSpec, std::strlen(kSpec), &options, &stream);
    }
    void end() {
        sl_disconnect(std::exchange(client_, nullptr));
        thread_.join();
    }

    std::vector<std::uint32_t> types;  // of messages; to be read after end()
    std::vector<std::uint32_t> requests;
    sl_msg_items items{};
    std::uint32_t parts = 0;
    std::vector<std::byte> order;

  private:
    void serve() {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        auto packet = std::make_unique<Packet>();
        std::string why;
        char byte = 0;
        while (::recv(socket.get(), &byte, 1, MSG_PEEK) > 0 &&
               receive(socket.get(), *packet, why, Carry::kDescriptor) == Received::kMessage) {
            const sl_message head = packet->head();
            if (head.type == SL_MSG_HELLO) {
                auto reply = make_message<sl_msg_hello_reply>(SL_MSG_HELLO_REPLY, head.request);
                (void)send_struct(socket.get(), reply);
                continue;
            }
            types.push_back(head.type);
            requests.push_back(head.request);
            if (head.type == SL_MSG_ITEMS) {
                items = *packet->as<sl_msg_items>();
                assert_false(static_cast<bool>(packet->fd));
                assert_int_equal(items.part, parts++);
                const auto bytes = packet->tail<sl_msg_items>();
                order.insert(order.end(), bytes.begin(), bytes.end());
            } else if (head.type == SL_MSG_OPEN) {
                auto error = make_message<sl_msg_error>(SL_MSG_ERROR, head.request);
                error.status = SL_E_SPEC;
                copy_text(error.message, "as you like");
                (void)send_struct(socket.get(), error);
            }
        }
    }

    std::string path_;
    UniqueFd listener_;
    std::thread thread_;
    sl_client* client_ = nullptr;
};

template <class Value>
std::vector<Value> read_at(const std::vector<std::byte>& bytes, std::size_t count, std::uint64_t offset) {
    std::vector<Value> values(count);
    assert_true(offset + count * sizeof(Value) <= bytes.size());
    std::memcpy(values.data(), bytes.data() + offset, count * sizeof(Value));
    return values;
}

const std::vector<std::uint64_t> kOrder = {5, 0, SL_NO_ITEM, 5, std::uint64_t{1} << 40};
const std::vector<double> kHints = {1, 0.5, 1, 2, 1e9};

sl_items items_of(const std::vector<std::uint64_t>& order, const double* hints) {
    sl_items items{};
    items.struct_size = sizeof items;
    items.count = order.size();
    items.index = order.data();
    items.hints = hints;
    return items;
}

void an_order_goes_in_front_of_its_opening_under_one_number(void**) {
    Refuser daemon;
    const sl_items items = items_of(kOrder, nullptr);
    assert_int_equal(daemon.open(&items), SL_E_SPEC);
    assert_says("as you like");
    daemon.end();
    assert_true((daemon.types == std::vector<std::uint32_t>{SL_MSG_ITEMS, SL_MSG_OPEN}));
    assert_true(daemon.requests[0] == daemon.requests[1]);
    assert_true(daemon.items.count == kOrder.size() && daemon.items.has_hints == 0);
    assert_int_equal(daemon.order.size(), 8 * kOrder.size());
    assert_true(read_at<std::uint64_t>(daemon.order, kOrder.size(), 0) == kOrder);
}

void hints_follow_the_order(void**) {
    Refuser daemon;
    const sl_items items = items_of(kOrder, kHints.data());
    assert_int_equal(daemon.open(&items), SL_E_SPEC);
    daemon.end();
    assert_int_equal(daemon.items.has_hints, 1);
    assert_int_equal(daemon.order.size(), 16 * kOrder.size());
    assert_true(read_at<std::uint64_t>(daemon.order, kOrder.size(), 0) == kOrder);
    assert_true(read_at<double>(daemon.order, kOrder.size(), 8 * kOrder.size()) == kHints);
}

void an_order_of_a_million_items_arrives_whole(void**) {
    Refuser daemon;
    std::vector<std::uint64_t> order(1'000'003);
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i * 0x9e3779b97f4a7c15;
    const sl_items items = items_of(order, nullptr);
    assert_int_equal(daemon.open(&items), SL_E_SPEC);
    daemon.end();
    assert_true(read_at<std::uint64_t>(daemon.order, order.size(), 0) == order);
    assert_in_range(daemon.parts, 123, 124);  // 64 KiB each
}

void an_opening_without_items_sends_none(void**) {
    Refuser daemon;
    assert_int_equal(daemon.open(nullptr), SL_E_SPEC);
    daemon.end();
    assert_true(daemon.types == std::vector<std::uint32_t>{SL_MSG_OPEN});
}

void an_order_that_is_none_is_not_sent(void**) {
    Refuser daemon;
    sl_items items = items_of(kOrder, nullptr);
    items.count = 0;
    assert_int_equal(daemon.open(&items), SL_E_INVALID_ARGUMENT);
    assert_says("count is 0");
    items.count = UINT64_MAX / 8;
    assert_int_equal(daemon.open(&items), SL_E_INVALID_ARGUMENT);
    items = items_of(kOrder, nullptr);
    items.index = nullptr;
    assert_int_equal(daemon.open(&items), SL_E_INVALID_ARGUMENT);
    items = items_of(kOrder, nullptr);
    items.struct_size = 0;
    assert_int_equal(daemon.open(&items), SL_E_INVALID_ARGUMENT);
    assert_says("sl_items.struct_size");
    daemon.end();
    assert_true(daemon.types.empty());
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(an_order_goes_in_front_of_its_opening_under_one_number),
        cmocka_unit_test(hints_follow_the_order),
        cmocka_unit_test(an_order_of_a_million_items_arrives_whole),
        cmocka_unit_test(an_opening_without_items_sends_none),
        cmocka_unit_test(an_order_that_is_none_is_not_sent),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
