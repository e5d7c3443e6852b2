/* Calls that need no daemon: sizes, nulls, flags, and what is said when nobody answers. */
#include <pthread.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_c.h"

static sl_error last_error(void) {
    sl_error error = {.struct_size = sizeof error};
    assert_int_equal(sl_last_error(&error), SL_OK);
    return error;
}

static void assert_says(const char* part) {
    sl_error error = last_error();
    if (strstr(error.message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void a_null_argument_is_an_error_and_a_null_handle_to_close_is_not(void** state) {
    (void)state;
    assert_int_equal(sl_connect(NULL, NULL), SL_E_INVALID_ARGUMENT);
    sl_stream* stream = NULL;
    sl_batch* batch = NULL;
    assert_int_equal(sl_open(NULL, "{}", 2, NULL, &stream), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_next(NULL, 0, &batch), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_batch_tensor(NULL, "image", NULL), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_stream_stats(NULL, NULL), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_stream_report(NULL, NULL), SL_E_INVALID_ARGUMENT);
    char text[SL_STATE_MAX];
    assert_int_equal(sl_stream_state(NULL, text, sizeof text), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_last_error(NULL), SL_E_INVALID_ARGUMENT);
    assert_int_equal(sl_disconnect(NULL), SL_OK);
    assert_int_equal(sl_close(NULL), SL_OK);
    assert_int_equal(sl_batch_release(NULL), SL_OK);
    sl_free(NULL);
}

static void a_struct_without_size_is_refused(void** state) {
    (void)state;
    sl_client* client = (sl_client*)&state;
    sl_connect_options options = {.flags = SL_CONNECT_NO_SPAWN};
    assert_int_equal(sl_connect(&options, &client), SL_E_INVALID_ARGUMENT);
    assert_null(client);
    assert_says("sl_connect_options.struct_size is 0");
}

typedef struct newer_options {
    sl_connect_options known;
    uint64_t unknown;
} newer_options;

static void a_newer_struct_is_accepted_if_what_is_unknown_is_zero(void** state) {
    (void)state;
    sl_client* client = NULL;
    newer_options options = {.known = {.struct_size = sizeof options, .socket = "/nonexistent/socket"}};
    assert_int_equal(sl_connect(&options.known, &client), SL_E_NO_DAEMON);
    options.unknown = 1;
    assert_int_equal(sl_connect(&options.known, &client), SL_E_INVALID_ARGUMENT);
    assert_says("does not know");
}

static void an_older_struct_is_accepted(void** state) {
    (void)state;
    sl_client* client = NULL;
    /* Bytes beyond the stated size must not be looked at: the socket here is not part of the options. */
    sl_connect_options options = {.struct_size = offsetof(sl_connect_options, program),
                                  .socket = "/nonexistent/socket",
                                  .program = (const char*)1,
                                  .timeout_ms = -5};
    assert_int_equal(sl_connect(&options, &client), SL_E_NO_DAEMON);
    sl_error error = last_error();
    uint32_t before = sizeof error;
    error.struct_size = offsetof(sl_error, message);
    memset(error.message, 'x', sizeof error.message);
    assert_int_equal(sl_last_error(&error), SL_OK);
    assert_int_equal(error.code, SL_E_NO_DAEMON);
    assert_int_equal(error.message[0], 'x');
    assert_int_equal(before, sizeof error);
}

static void options_that_contradict_each_other_are_refused(void** state) {
    (void)state;
    sl_client* client = NULL;
    sl_connect_options unknown = {.struct_size = sizeof unknown, .flags = 0x80};
    assert_int_equal(sl_connect(&unknown, &client), SL_E_INVALID_ARGUMENT);
    assert_says("0x80");
    sl_connect_options both = {.struct_size = sizeof both, .flags = SL_CONNECT_PRIVATE, .socket = "/x"};
    assert_int_equal(sl_connect(&both, &client), SL_E_INVALID_ARGUMENT);
}

static void a_socket_where_nobody_answers_is_named_with_the_user(void** state) {
    (void)state;
    sl_client* client = NULL;
    sl_connect_options options = {.struct_size = sizeof options, .socket = "/nonexistent/speedy.sock"};
    assert_int_equal(sl_connect(&options, &client), SL_E_NO_DAEMON);
    char user[32];
    snprintf(user, sizeof user, "user %u", (unsigned)geteuid());
    assert_says("/nonexistent/speedy.sock");
    assert_says(user);
    assert_says("No such file");
    assert_int_equal(last_error().os_errno, 2);
}

static void the_environment_names_the_only_socket_tried(void** state) {
    (void)state;
    setenv("SPEEDYLOADER_SOCKET", "/nonexistent/from-environment", 1);
    sl_client* client = NULL;
    assert_int_equal(sl_connect(NULL, &client), SL_E_NO_DAEMON);
    unsetenv("SPEEDYLOADER_SOCKET");
    assert_says("/nonexistent/from-environment");
}

static sl_status connect_private(uint32_t flags) {
    sl_client* client = NULL;
    sl_connect_options options = {.struct_size = sizeof options, .flags = SL_CONNECT_PRIVATE | flags};
    return sl_connect(&options, &client);
}

static void no_daemon_is_started_against_the_callers_will(void** state) {
    (void)state;
    assert_int_equal(connect_private(SL_CONNECT_NO_SPAWN), SL_E_NO_DAEMON);
    assert_says("no private daemon answers");
}

static void a_missing_daemon_program_is_named(void** state) {
    (void)state;
    setenv("SPEEDYLOADER_DAEMON", "/nonexistent/speedyloaderd", 1);
    assert_int_equal(connect_private(0), SL_E_NO_DAEMON);
    assert_says("/nonexistent/speedyloaderd");
}

static void a_daemon_that_dies_at_its_start_is_an_error_that_says_where_to_look(void** state) {
    (void)state;
    setenv("SPEEDYLOADER_DAEMON", "/bin/false", 1);
    assert_int_equal(connect_private(0), SL_E_NO_DAEMON);
    unsetenv("SPEEDYLOADER_DAEMON");
    assert_says("ended at its start");
    assert_says("SPEEDYLOADER_LOG");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and it is no child of ours any more */
}

static unsigned long long inode(const char* path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (unsigned long long)info.st_ino;
}

/* As another user: listens at the address of this user's private daemon until `done` is readable. */
static int squat(int ready, int done) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "speedyloader-%u-%llu-%llu-%s",
                          (unsigned)geteuid(), inode("/proc/self/ns/mnt"), inode("/proc/self/ns/pid"),
                          getenv("SPEEDYLOADER_PRIVATE_NAME"));
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    char byte = 0;
    if (setuid(65534) != 0 || bind(listener, (struct sockaddr*)&address, bytes) != 0) return 1;
    if (listen(listener, 1) != 0 || write(ready, &byte, 1) != 1) return 1;
    return read(done, &byte, 1) == 0 ? 0 : 1;
}

static void a_socket_that_another_user_has_put_there_is_denied(void** state) {
    (void)state;
    if (geteuid() != 0) skip(); /* only root can become another user */
    int ready[2];
    int done[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        _exit(squat(ready[1], done[0]));
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    sl_status status = connect_private(0);
    close(done[1]);
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(status, SL_E_DENIED);
    assert_says("user 65534");
}

static void* fail_elsewhere(void* unused) {
    (void)unused;
    sl_batch* batch = NULL;
    return sl_next(NULL, 0, &batch) == SL_E_INVALID_ARGUMENT ? NULL : (void*)1;
}

static void each_thread_has_its_own_last_error(void** state) {
    (void)state;
    assert_int_equal(connect_private(SL_CONNECT_NO_SPAWN), SL_E_NO_DAEMON);
    pthread_t thread;
    void* result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
    assert_int_equal(last_error().code, SL_E_NO_DAEMON);
}

static void names_and_versions_are_text(void** state) {
    (void)state;
    assert_string_equal(sl_status_name(SL_E_TOO_MANY_FAILURES), "SL_E_TOO_MANY_FAILURES");
    assert_string_equal(sl_status_name((sl_status)12345), "unknown");
    assert_string_equal(sl_sample_kind_name(7), "truncated");
    assert_string_equal(sl_sample_kind_name(99), "unknown");
    assert_true(strchr(sl_version(), '.') != NULL);
}

int main(void) {
    char name[32];
    snprintf(name, sizeof name, "calls-%d", (int)getpid());
    setenv("SPEEDYLOADER_PRIVATE_NAME", name, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_null_argument_is_an_error_and_a_null_handle_to_close_is_not),
        cmocka_unit_test(a_struct_without_size_is_refused),
        cmocka_unit_test(a_newer_struct_is_accepted_if_what_is_unknown_is_zero),
        cmocka_unit_test(an_older_struct_is_accepted),
        cmocka_unit_test(options_that_contradict_each_other_are_refused),
        cmocka_unit_test(a_socket_where_nobody_answers_is_named_with_the_user),
        cmocka_unit_test(the_environment_names_the_only_socket_tried),
        cmocka_unit_test(no_daemon_is_started_against_the_callers_will),
        cmocka_unit_test(a_missing_daemon_program_is_named),
        cmocka_unit_test(a_daemon_that_dies_at_its_start_is_an_error_that_says_where_to_look),
        cmocka_unit_test(a_socket_that_another_user_has_put_there_is_denied),
        cmocka_unit_test(each_thread_has_its_own_last_error),
        cmocka_unit_test(names_and_versions_are_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
