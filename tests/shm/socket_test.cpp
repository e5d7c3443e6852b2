// Control messages: a packet is a message or it is refused, and no descriptor of a refused one stays open.
//
// Everything goes through a real SOCK_SEQPACKET pair; the sender of odd packets is plain sendmsg.
#include "shm/socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/cmocka_cpp.h"
#include "tests/shm/child.h"

namespace sl {
namespace {

struct Pair {
    UniqueFd here;
    UniqueFd there;
    std::unique_ptr<Packet> packet = std::make_unique<Packet>();
    std::string why;

    Pair() {
        int sockets[2];
        assert_int_equal(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        here.reset(sockets[0]);
        there.reset(sockets[1]);
    }
    Received receive_here() { return receive(here.get(), *packet, why, Carry::kDescriptor); }
};

int open_descriptors() {
    DIR* folder = ::opendir("/proc/self/fd");
    int count = 0;
    while (::readdir(folder) != nullptr)
        ++count;
    ::closedir(folder);
    return count;
}

// Sends raw bytes and `fds` copies of standard input's descriptor.
bool send_raw(int socket, const std::vector<std::byte>& bytes, int fds) {
    iovec vector{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr header{};
    header.msg_iov = &vector;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 16)] = {};
    if (fds > 0) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * static_cast<std::size_t>(fds));
        cmsghdr* part = CMSG_FIRSTHDR(&header);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<std::size_t>(fds));
        const std::vector<int> copies(static_cast<std::size_t>(fds), socket);
        std::memcpy(CMSG_DATA(part), copies.data(), copies.size() * sizeof(int));
    }
    return ::sendmsg(socket, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::vector<std::byte> message_of(std::size_t bytes, std::uint32_t length_said) {
    std::vector<std::byte> packet(bytes);
    sl_message head{};
    head.length = length_said;
    head.major = SL_SHM_MAJOR;
    head.type = SL_MSG_STATUS;
    std::memcpy(packet.data(), &head, std::min(bytes, sizeof head));
    return packet;
}

// A refused packet says why and costs no descriptor.
void expect_malformed(const std::vector<std::byte>& bytes, int fds) {
    Pair pair;
    const int before = open_descriptors();
    assert_true(send_raw(pair.there.get(), bytes, fds));
    assert_true(pair.receive_here() == Received::kMalformed);
    assert_true(pair.why.size() > 10);
    assert_int_equal(open_descriptors(), before);
}

void a_message_with_a_tail_and_a_descriptor_comes_through_whole(void**) {
    Pair pair;
    auto message = make_message<sl_msg_open>(SL_MSG_OPEN, 77);
    message.slots = 5;
    const std::string spec(30000, 'x');
    message.spec_bytes = static_cast<std::uint32_t>(spec.size());
    UniqueFd sent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    assert_true(
        send_struct(pair.there.get(), message, std::as_bytes(std::span(spec)), sent.get()).has_value());
    assert_true(pair.receive_here() == Received::kMessage);
    assert_int_equal(pair.packet->head().type, SL_MSG_OPEN);
    assert_int_equal(pair.packet->head().request, 77);
    assert_int_equal(pair.packet->head().major, SL_SHM_MAJOR);
    assert_int_equal(pair.packet->head().length, sizeof message + spec.size());
    const auto* open = pair.packet->as<sl_msg_open>();
    assert_non_null(open);
    assert_int_equal(open->slots, 5);
    const auto tail = pair.packet->tail<sl_msg_open>();
    assert_int_equal(tail.size(), spec.size());
    assert_memory_equal(tail.data(), spec.data(), spec.size());
    assert_true(static_cast<bool>(pair.packet->fd));
    assert_int_equal(::fcntl(pair.packet->fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_true(pair.receive_here() == Received::kNothing);
    assert_false(static_cast<bool>(pair.packet->fd));
}

void the_longest_message_comes_through_and_a_longer_one_is_not_sent(void**) {
    Pair pair;
    auto message = make_message<sl_msg_document>(SL_MSG_DOCUMENT, 1);
    std::vector<std::byte> tail(SL_MESSAGE_MAX - sizeof message, std::byte{3});
    assert_true(send_struct(pair.there.get(), message, tail).has_value());
    assert_true(pair.receive_here() == Received::kMessage);
    assert_int_equal(pair.packet->length, SL_MESSAGE_MAX);
    tail.push_back(std::byte{3});
    auto sent = send_struct(pair.there.get(), message, tail);
    assert_false(sent.has_value());
    assert_true(sent.error().status == Status::kProtocol);
    assert_true(pair.receive_here() == Received::kNothing);
}

void a_struct_longer_than_the_packet_is_not_looked_at(void**) {
    Pair pair;
    assert_true(send_raw(pair.there.get(), message_of(sizeof(sl_msg_stream), sizeof(sl_msg_stream)), 0));
    assert_true(pair.receive_here() == Received::kMessage);
    assert_non_null(pair.packet->as<sl_msg_stream>());
    assert_null(pair.packet->as<sl_msg_segment>());
}

void a_packet_shorter_than_a_head_is_malformed(void**) {
    for (std::size_t bytes = 1; bytes < sizeof(sl_message); ++bytes) {
        expect_malformed(message_of(bytes, static_cast<std::uint32_t>(bytes)), 0);
    }
}

void a_packet_that_lies_about_its_length_is_malformed(void**) {
    for (std::uint32_t said : {0U, 16U, 63U, 65U, 0xffffffffU})
        expect_malformed(message_of(64, said), 0);
}

void a_packet_longer_than_a_message_may_be_is_malformed(void**) {
    expect_malformed(message_of(SL_MESSAGE_MAX + 1, SL_MESSAGE_MAX), 0);
    expect_malformed(message_of(SL_MESSAGE_MAX + 64, SL_MESSAGE_MAX + 64), 1);
}

void two_to_four_descriptors_are_malformed_and_none_leaks(void**) {
    for (int fds = 2; fds <= 4; ++fds)
        expect_malformed(message_of(64, 64), fds);
}

void more_descriptors_than_fit_are_malformed_and_none_leaks(void**) {
    for (int fds = 5; fds <= 16; ++fds)
        expect_malformed(message_of(64, 64), fds);
}

void what_is_not_to_carry_is_told_apart_and_its_descriptors_are_not_taken(void**) {
    Pair pair;
    const int before = open_descriptors();
    assert_true(send_raw(pair.there.get(), message_of(64, 64), 2));
    std::string why;
    assert_true(receive(pair.here.get(), *pair.packet, why, Carry::kNothing) == Received::kMessage);
    assert_true(pair.packet->carried);
    assert_int_equal(open_descriptors(), before);
    assert_true(send_raw(pair.there.get(), message_of(64, 64), 0));
    assert_true(receive(pair.here.get(), *pair.packet, why, Carry::kNothing) == Received::kMessage);
    assert_false(pair.packet->carried);
}

void an_empty_packet_with_descriptors_leaks_none(void**) {
    Pair pair;
    const int before = open_descriptors();
    assert_true(send_raw(pair.there.get(), {}, 3));
    assert_true(pair.receive_here() == Received::kClosed);
    assert_int_equal(open_descriptors(), before);
}

void a_descriptor_cut_off_for_want_of_numbers_is_malformed(void**) {
    const int result = run_in_child([] {
        Pair pair;
        if (!send_raw(pair.there.get(), message_of(64, 64), 1)) return 2;
        const rlimit none{3, 3};
        if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
        return pair.receive_here() == Received::kMalformed && !pair.packet->fd ? 0 : 4;
    });
    assert_int_equal(result, 0);
}

void a_peer_that_has_gone_reads_as_closed_and_sending_to_it_is_an_error(void**) {
    Pair pair;
    pair.there.reset();
    assert_true(pair.receive_here() == Received::kClosed);
    auto message = make_message<sl_msg_stream>(SL_MSG_CLOSE, 1);
    auto sent = send_struct(pair.here.get(), message);
    assert_false(sent.has_value());
    assert_true(sent.error().status == Status::kDisconnected);
}

void a_peer_that_does_not_read_is_an_error_and_not_a_wait(void**) {
    Pair pair;
    auto message = make_message<sl_msg_document>(SL_MSG_DOCUMENT, 1);
    const std::vector<std::byte> tail(60000);
    Result<void> sent;
    for (int i = 0; i < 1000 && sent; ++i)
        sent = send_struct(pair.here.get(), message, tail);
    assert_false(sent.has_value());
    assert_int_equal(sent.error().os_errno, EAGAIN);
}

void a_text_is_cut_to_its_field_and_always_ends(void**) {
    char field[8];
    std::memset(field, 'z', sizeof field);
    copy_text(field, "abc");
    assert_memory_equal(field, "abc\0\0\0\0\0", 8);
    copy_text(field, "0123456789");
    assert_string_equal(field, "0123456");
}

void LDR_14_sizes_beyond_four_gigabytes_survive_a_message(void**) {
    Pair pair;
    auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, 1);
    message.bytes = 5'000'000'000;
    assert_true(send_struct(pair.there.get(), message).has_value());
    assert_true(pair.receive_here() == Received::kMessage);
    assert_true(pair.packet->as<sl_msg_segment>()->bytes == 5'000'000'000);
    auto document = make_message<sl_msg_document>(SL_MSG_DOCUMENT, 1);
    document.bytes = 5'000'000'000;
    assert_true(send_struct(pair.there.get(), document).has_value());
    assert_true(pair.receive_here() == Received::kMessage);
    assert_true(pair.packet->as<sl_msg_document>()->bytes == 5'000'000'000);
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_message_with_a_tail_and_a_descriptor_comes_through_whole),
        cmocka_unit_test(the_longest_message_comes_through_and_a_longer_one_is_not_sent),
        cmocka_unit_test(a_struct_longer_than_the_packet_is_not_looked_at),
        cmocka_unit_test(a_packet_shorter_than_a_head_is_malformed),
        cmocka_unit_test(a_packet_that_lies_about_its_length_is_malformed),
        cmocka_unit_test(a_packet_longer_than_a_message_may_be_is_malformed),
        cmocka_unit_test(two_to_four_descriptors_are_malformed_and_none_leaks),
        cmocka_unit_test(more_descriptors_than_fit_are_malformed_and_none_leaks),
        cmocka_unit_test(what_is_not_to_carry_is_told_apart_and_its_descriptors_are_not_taken),
        cmocka_unit_test(an_empty_packet_with_descriptors_leaks_none),
        cmocka_unit_test(a_descriptor_cut_off_for_want_of_numbers_is_malformed),
        cmocka_unit_test(a_peer_that_has_gone_reads_as_closed_and_sending_to_it_is_an_error),
        cmocka_unit_test(a_peer_that_does_not_read_is_an_error_and_not_a_wait),
        cmocka_unit_test(a_text_is_cut_to_its_field_and_always_ends),
        cmocka_unit_test(LDR_14_sizes_beyond_four_gigabytes_survive_a_message),
    };
    return cmocka_run_group_tests_name("shm/socket", tests, nullptr, nullptr);
}
