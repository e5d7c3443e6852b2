/* What the end-to-end tests share: a spec over the photographs, a connection to a private daemon of this
 * program's own, and the processes of that daemon as /proc shows them. */
#ifndef SL_TESTS_CLIENT_E2E_H
#define SL_TESTS_CLIENT_E2E_H

#include <speedyloader/speedyloader.h>

#include "cmocka_c.h"

enum { E2E_PHOTOS = 40, E2E_WAIT_MS = 30000 };

typedef struct e2e {
    sl_client* client;
    sl_stream* stream;
} e2e;

int64_t e2e_now_ms(void);

/* The photographs, decoded and cropped to 32 x 48; batches of `batch`, the last one kept. */
const char* e2e_spec(unsigned batch, unsigned epochs);

sl_client* e2e_connect(void);
sl_client* e2e_connect_with(int64_t reconnect_ms);
sl_stream* e2e_open(sl_client* client, const char* spec, uint32_t slots, sl_level level);
sl_batch* e2e_next(sl_stream* stream);

/* Connects and opens. */
void e2e_begin(e2e* made, unsigned batch, unsigned epochs, uint32_t slots);
void e2e_begin_with(e2e* made, int64_t reconnect_ms, unsigned batch, unsigned epochs, uint32_t slots);
void e2e_end(e2e* made);

/* How many processes have this program's SPEEDYLOADER_PRIVATE_NAME in their environment, besides itself and
 * its children by fork; each gets the signal if that is not 0. */
int e2e_daemon_processes(int signal);

unsigned e2e_open_descriptors(void);

/* The sum of a tensor's bytes, so that a change shows. */
uint64_t e2e_sum(const sl_batch* batch, const char* name);

void e2e_assert_says(const char* part);

extern const struct CMUnitTest e2e_leases_tests[];
extern const size_t e2e_leases_count;
extern const struct CMUnitTest e2e_daemon_tests[];
extern const size_t e2e_daemon_count;
extern const struct CMUnitTest e2e_restart_tests[];
extern const size_t e2e_restart_count;
extern const struct CMUnitTest e2e_position_tests[];
extern const size_t e2e_position_count;
extern const struct CMUnitTest e2e_writes_tests[];
extern const size_t e2e_writes_count;
extern const struct CMUnitTest e2e_writes_drop_tests[];
extern const size_t e2e_writes_drop_count;

#endif
