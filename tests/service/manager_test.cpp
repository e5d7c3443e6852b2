// What each call says to the service manager, in the words of its protocol; a socket of this test listens.
#include "daemon/service/manager.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cmocka_cpp.h"

namespace sl {
namespace {

namespace fs = std::filesystem;

// The manager's socket; $NOTIFY_SOCKET names it for as long as it lives.
class Manager {
  public:
    Manager() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path_.c_str());
        assert_int_equal(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
    }
    ~Manager() {
        ::unsetenv("NOTIFY_SOCKET");
        fs::remove(path_);
    }
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    [[nodiscard]] int fd() const { return socket_.get(); }

    // Messages of somebody else's, as many as it takes until no more fits. How many that were.
    int fill() const {
        const UniqueFd other(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strcpy(address.sun_path, path_.c_str());
        int sent = 0;
        while (::sendto(other.get(), "X=1", 3, 0, reinterpret_cast<sockaddr*>(&address), sizeof address) == 3)
            ++sent;
        return sent;
    }

    // The next message; empty if there is none.
    [[nodiscard]] std::string heard() const {
        char text[512];
        const ssize_t bytes = ::recv(socket_.get(), text, sizeof text, 0);
        return bytes < 0 ? std::string() : std::string(text, static_cast<std::size_t>(bytes));
    }

  private:
    std::string path_ = (fs::temp_directory_path() / ("sl-notify-" + std::to_string(::getpid()))).string();
    UniqueFd socket_;
};

std::unique_ptr<EventLoop> make_loop() {
    auto loop = EventLoop::create();
    if (!loop) fail_msg("%s", loop.error().message.c_str());
    return std::move(*loop);
}

ServiceManager::Load some_load() {
    return {.clients = 1, .streams = 2};
}

void ready_comes_with_the_load(void**) {
    const Manager manager;
    const auto loop = make_loop();
    ServiceManager service(*loop, false, some_load);
    assert_string_equal(manager.heard().c_str(), "");
    service.ready();
    assert_string_equal(manager.heard().c_str(), "READY=1\nSTATUS=1 client, 2 streams");
}

void a_reload_says_when_it_began_and_ends_with_ready(void**) {
    const Manager manager;
    const auto loop = make_loop();
    ServiceManager service(*loop, false, some_load);
    service.ready();
    static_cast<void>(manager.heard());
    timespec before{};
    ::clock_gettime(CLOCK_MONOTONIC, &before);
    service.reloading();
    const std::string said = manager.heard();
    const std::string begin = "RELOADING=1\nMONOTONIC_USEC=";
    assert_true(said.starts_with(begin));
    const auto when = std::stoull(said.substr(begin.size()));
    const auto earliest = std::uint64_t(before.tv_sec) * 1'000'000 + std::uint64_t(before.tv_nsec) / 1000;
    assert_true(when >= earliest && when < earliest + 10'000'000);
    service.ready();
    assert_string_equal(manager.heard().c_str(), "READY=1\nSTATUS=1 client, 2 streams");
}

void after_stopping_nothing_more_is_said(void**) {
    const Manager manager;
    const auto loop = make_loop();
    ::setenv("WATCHDOG_USEC", "3000", 1);
    std::string last;
    int beats = 0;
    const auto listen = [&](std::uint32_t) {
        for (std::string said = manager.heard(); !said.empty(); said = manager.heard()) {
            beats += said == "WATCHDOG=1\n" ? 1 : 0;
            last = said;
        }
    };
    {
        assert_true(loop->add(manager.fd(), listen).has_value());
        ServiceManager service(*loop, false, some_load);
        ::unsetenv("WATCHDOG_USEC");
        service.ready();
        loop->after(std::chrono::milliseconds(20), [&] { service.stopping(); });
        loop->after(std::chrono::milliseconds(40), [&] { loop->stop(); });
        loop->run();
    }
    assert_true(beats > 1);
    assert_string_equal(last.c_str(), "STOPPING=1\nSTATUS=stopping");
}

void who_does_not_read_holds_up_nobody_and_hears_all_that_matters_later(void**) {
    const Manager manager;
    const auto loop = make_loop();
    ::setenv("WATCHDOG_USEC", "3000", 1);
    ServiceManager service(*loop, false, some_load);
    ::unsetenv("WATCHDOG_USEC");
    const int others = manager.fill();
    for (int round = 0; round < 2; ++round) {
        service.reloading();
        service.ready();
    }
    std::vector<std::string> heard;
    const auto listen = [&](std::uint32_t) {
        heard.push_back(manager.heard());
        if (heard.size() == 3) loop->stop();
    };
    loop->after(std::chrono::milliseconds(20), [&] {
        for (int message = 0; message < others; ++message)
            assert_string_equal(manager.heard().c_str(), "X=1");
        assert_string_equal(manager.heard().c_str(), "");
        assert_true(loop->add(manager.fd(), listen).has_value());
    });
    loop->run();
    assert_true(heard[0].starts_with("RELOADING=1\n"));
    assert_string_equal(heard[1].c_str(), "READY=1\nSTATUS=1 client, 2 streams");
    assert_string_equal(heard[2].c_str(), "WATCHDOG=1\n");
}

void a_name_in_the_abstract_space_is_heard_too(void**) {
    const UniqueFd manager(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const std::string name = "@sl-notify-" + std::to_string(::getpid());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, name.size());
    address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    assert_int_equal(::bind(manager.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
    const auto loop = make_loop();
    ServiceManager service(*loop, false, some_load);
    ::unsetenv("NOTIFY_SOCKET");
    service.ready();
    char text[64] = {};
    assert_true(::recv(manager.get(), text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, "READY=1\nSTATUS=1 client, 2 streams");
}

void a_private_daemon_says_nothing(void**) {
    const Manager manager;
    const auto loop = make_loop();
    ServiceManager service(*loop, true, some_load);
    service.ready();
    service.reloading();
    service.stopping();
    assert_string_equal(manager.heard().c_str(), "");
}

}  // namespace
}  // namespace sl

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sl::ready_comes_with_the_load),
        cmocka_unit_test(sl::a_reload_says_when_it_began_and_ends_with_ready),
        cmocka_unit_test(sl::after_stopping_nothing_more_is_said),
        cmocka_unit_test(sl::who_does_not_read_holds_up_nobody_and_hears_all_that_matters_later),
        cmocka_unit_test(sl::a_name_in_the_abstract_space_is_heard_too),
        cmocka_unit_test(sl::a_private_daemon_says_nothing),
    };
    return cmocka_run_group_tests_name("service_manager", tests, nullptr, nullptr);
}
