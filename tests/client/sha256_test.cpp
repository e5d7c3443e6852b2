// SHA-256 against the vectors of FIPS 180-4 and NIST's examples, by both ways to compute it.
#include "bindings/cli/sha256.h"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

extern "C" {
#include <cmocka.h>
}

namespace {

using sl::cli::Sha256;

struct Vector {
    std::string text;
    const char* digest;
};

const Vector kVectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
     "t"
     "nopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}

void the_published_vectors_give_the_published_digests(void**) {
    for (bool portable : {false, true}) {
        for (const Vector& vector : kVectors) {
            Sha256 sha(portable);
            sha.update(bytes(vector.text));
            assert_string_equal(sha.finish().c_str(), vector.digest);
        }
    }
}

void pieces_of_any_length_give_the_digest_of_the_whole(void**) {
    std::string text;
    for (int i = 0; i < 1000; ++i)
        text += static_cast<char>(i * 7);
    for (bool portable : {false, true}) {
        Sha256 whole(portable);
        whole.update(bytes(text));
        const std::string digest = whole.finish();
        for (std::size_t piece = 1; piece < 200; ++piece) {
            Sha256 sha(portable);
            for (std::size_t at = 0; at < text.size(); at += piece) {
                sha.update(bytes(std::string_view(text).substr(at, piece)));
            }
            assert_string_equal(sha.finish().c_str(), digest.c_str());
        }
    }
}

void a_finished_object_starts_anew(void**) {
    Sha256 sha;
    sha.update(bytes("something"));
    sha.finish();
    sha.update(bytes("abc"));
    assert_string_equal(sha.finish().c_str(), kVectors[1].digest);
}

}  // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_give_the_published_digests),
        cmocka_unit_test(pieces_of_any_length_give_the_digest_of_the_whole),
        cmocka_unit_test(a_finished_object_starts_anew),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
