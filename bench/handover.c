/* sl_bench_handover SPEC.json: what taking and giving back a batch costs, through the C API.
 *
 * Called by bench/throughput.py. Waits until at least two batches lie ready, then times sl_next (time-out 0)
 * and sl_batch_release of each batch that is ready, and looks up in /proc/self/maps where the tensor lies: a
 * pointer into a read-only memfd mapping means that nothing was copied. One thread. Prints one JSON line:
 * {"handover_us" (median), "p99_us", "batches", "in_mapping", "mapping"}. Failure: one line on stderr, exit
 * 1; 2 for wrong use.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <speedyloader/speedyloader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 300, LARGEST_SPEC = 1 << 16 };
static const double kPatience = 30; /* seconds for all of it */

struct mapping {
    int read_only_memfd;
    char text[160];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int complain(const char* what) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    fprintf(stderr, "sl_bench_handover: %s: %s\n", what, error.message);
    return 1;
}

static int by_value(const void* a, const void* b) {
    const double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

/* Which line of /proc/self/maps holds the address. */
static struct mapping find_mapping(const void* address) {
    struct mapping found = {0, "no mapping"};
    FILE* maps = fopen("/proc/self/maps", "re");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        uintptr_t from, to;
        char rights[8] = "", name[128] = "";
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %127s", &from, &to, rights, name) < 3)
            continue;
        if ((uintptr_t)address < from || (uintptr_t)address >= to) continue;
        found.read_only_memfd = rights[1] == '-' && rights[3] == 's' && strstr(name, "memfd:") != NULL;
        snprintf(found.text, sizeof found.text, "%s %s", rights, name);
    }
    if (maps) fclose(maps);
    return found;
}

/* Sleeps until two batches are ready. Returns 0 when the time is up or the stream has no more to give. */
static int wait_for_two(const sl_stream* stream, double until) {
    const struct timespec pause = {0, 5 * 1000 * 1000};
    sl_stats stats = {.struct_size = sizeof stats};
    while (now() < until && sl_stream_stats(stream, &stats) == SL_OK) {
        if (stats.ready >= 2) return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

/* Fills `times` with seconds of `wanted` hand-overs; returns how many there were, or -1 after an error. */
static int take_batches(sl_stream* stream, int wanted, double* times, struct mapping* mapping) {
    const double until = now() + kPatience;
    int count = 0;
    while (count < wanted && wait_for_two(stream, until)) {
        sl_status status = SL_OK;
        while (count < wanted && status == SL_OK) {
            sl_batch* batch = NULL;
            const double start = now();
            status = sl_next(stream, 0, &batch);
            const double taken = now();
            if (status != SL_OK) break;
            if (count == 0) {
                sl_tensor image = {.struct_size = sizeof image};
                if (sl_batch_tensor(batch, "image", &image) != SL_OK) return -1;
                *mapping = find_mapping(image.data);
            }
            const double again = now();
            if (sl_batch_release(batch) != SL_OK) return -1;
            times[count++] = (taken - start) + (now() - again);
        }
        if (status < 0) return -1;
        if (status == SL_END) break;
    }
    return count;
}

int main(int argc, char** argv) {
    static char spec[LARGEST_SPEC];
    static double times[MOST];
    const int asked = argc == 3 ? atoi(argv[2]) : MOST;
    const int wanted = asked > 0 && asked < MOST ? asked : MOST;
    FILE* file = argc == 2 || argc == 3 ? fopen(argv[1], "re") : NULL;
    if (!file) {
        fprintf(stderr, "usage: sl_bench_handover SPEC.json [BATCHES]\n");
        return 2;
    }
    const size_t bytes = fread(spec, 1, sizeof spec, file);
    fclose(file);
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    if (sl_connect(NULL, &client) != SL_OK) return complain("cannot connect");
    if (sl_open(client, spec, bytes, NULL, &stream) != SL_OK) return complain("cannot open the stream");
    struct mapping mapping = {0, ""};
    const int count = take_batches(stream, wanted, times, &mapping);
    if (count <= 0) return complain("no batch became ready");
    sl_close(stream);
    sl_disconnect(client);
    qsort(times, (size_t)count, sizeof times[0], by_value);
    printf(
        "{\"handover_us\": %.3f, \"p99_us\": %.3f, \"batches\": %d, \"in_mapping\": %d, \"mapping\": "
        "\"%s\"}\n",
        1e6 * times[count / 2], 1e6 * times[count * 99 / 100], count, mapping.read_only_memfd, mapping.text);
    return 0;
}
