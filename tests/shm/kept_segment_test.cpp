// Whoever was lent a segment keeps it by a descriptor, by a map or by a message that nobody has read; and the
// daemon sees when the last of them is gone.
#include "shm/kept_segment.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include "shm/socket.h"
#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

constexpr std::uint64_t kBytes = 1U << 20;

Segment make_segment(bool guests_write) {
    auto segment = Segment::create("test", kBytes);
    if (!segment) fail_msg("%s", segment.error().message.c_str());
    const auto sealed = guests_write ? segment->seal_size() : segment->seal_against_writers();
    assert_true(sealed.has_value());
    return std::move(*segment);
}

KeptSegment give_up(Segment segment) {
    auto kept = KeptSegment::of(std::move(segment));
    if (!kept) fail_msg("%s", kept.error().message.c_str());
    return std::move(*kept);
}

void what_nobody_was_lent_is_kept_by_nobody(void**) {
    assert_false(give_up(make_segment(false)).is_kept());
    assert_false(give_up(make_segment(true)).is_kept());
}

void a_read_only_descriptor_keeps_it_until_the_last_copy_is_closed(void**) {
    Segment segment = make_segment(false);
    UniqueFd lent = *segment.read_only_fd();
    UniqueFd copy(::dup(lent.get()));
    const KeptSegment kept = give_up(std::move(segment));
    assert_true(kept.is_kept());
    lent.reset();
    assert_true(kept.is_kept());
    copy.reset();
    assert_false(kept.is_kept());
    assert_false(kept.is_kept());  // to ask changes nothing
}

void a_map_keeps_it_without_any_descriptor(void**) {
    for (const bool writes : {false, true}) {
        Segment segment = make_segment(writes);
        UniqueFd lent = writes ? UniqueFd(::dup(segment.writable_fd())) : *segment.read_only_fd();
        const int rights = writes ? PROT_READ | PROT_WRITE : PROT_READ;
        void* map = ::mmap(nullptr, kBytes, rights, MAP_SHARED, lent.get(), 0);
        assert_true(map != MAP_FAILED);
        lent.reset();
        const KeptSegment kept = give_up(std::move(segment));
        assert_true(kept.is_kept());
        ::munmap(map, kBytes);
        assert_false(kept.is_kept());
    }
}

void a_writable_descriptor_keeps_it_too(void**) {
    Segment segment = make_segment(true);
    UniqueFd lent(::dup(segment.writable_fd()));
    const KeptSegment kept = give_up(std::move(segment));
    assert_true(kept.is_kept());
    lent.reset();
    assert_false(kept.is_kept());
}

void a_message_that_nobody_reads_keeps_it(void**) {
    int ends[2];
    assert_int_equal(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    UniqueFd near(ends[0]);
    UniqueFd far(ends[1]);
    Segment segment = make_segment(false);
    {
        const UniqueFd lent = *segment.read_only_fd();
        auto message = make_message<sl_msg_segment>(SL_MSG_SEGMENT, 0);
        assert_true(send_struct(near.get(), message, {}, lent.get()).has_value());
    }
    const KeptSegment kept = give_up(std::move(segment));
    assert_true(kept.is_kept());
    far.reset();
    assert_false(kept.is_kept());
}

}  // namespace
}  // namespace sl

int main() {
    using namespace sl;
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_was_lent_is_kept_by_nobody),
        cmocka_unit_test(a_read_only_descriptor_keeps_it_until_the_last_copy_is_closed),
        cmocka_unit_test(a_map_keeps_it_without_any_descriptor),
        cmocka_unit_test(a_writable_descriptor_keeps_it_too),
        cmocka_unit_test(a_message_that_nobody_reads_keeps_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
