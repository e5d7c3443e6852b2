/* sl_bench_take_ready SOCKET SPEC.json SLOTS RINGS: what C pays for a batch that lies ready.
 *
 * Called by bench/python_overhead.py, beside take_ready.py, which does the same steps in Python. RINGS times
 * it waits until every slot of the ring is filled and the daemon rests, then takes all batches: the clock
 * runs over sl_next, a look at the tensors image and label, and sl_batch_release. One thread. Prints one JSON
 * line: {"wall_us": [[one per batch], one list per ring], "cpu_us": [this thread's mean, one per ring]}.
 * Failure: one line on stderr, exit 1; 2 for wrong use.
 */
#define _GNU_SOURCE
#include <speedyloader/speedyloader.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_SLOTS = 64, MOST_RINGS = 100, LARGEST_SPEC = 1 << 16 };
static const double kPatience = 60; /* seconds for one ring to fill */

static struct { double wall[MOST_RINGS][MOST_SLOTS], cpu[MOST_RINGS]; /* seconds a batch */ } times;

static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int complain(const char* what) {
    sl_error error = {.struct_size = sizeof error};
    sl_last_error(&error);
    fprintf(stderr, "sl_bench_take_ready: %s: %s\n", what, error.message);
    return 1;
}

/* Sleeps until every slot is filled and nothing has been decoded ahead for a while: then the daemon rests,
 * and a whole ring of batches is there unless an epoch ends in it. */
static int wait_for_ring(const sl_stream* stream, uint32_t slots) {
    const struct timespec rest = {0, 50 * 1000 * 1000};
    const double until = seconds(CLOCK_MONOTONIC) + kPatience;
    sl_stats stats = {.struct_size = sizeof stats};
    uint64_t decoded = UINT64_MAX;
    while (seconds(CLOCK_MONOTONIC) < until && sl_stream_stats(stream, &stats) == SL_OK) {
        if (stats.ready >= slots && stats.decode_ns == decoded) return 1;
        decoded = stats.decode_ns;
        nanosleep(&rest, NULL);
    }
    return 0;
}

/* A look at both tensors, as a training loop takes. */
static sl_status look(const sl_batch* batch) {
    sl_tensor image = {.struct_size = sizeof image}, label = {.struct_size = sizeof label};
    sl_status status = sl_batch_tensor(batch, "image", &image);
    return status == SL_OK ? sl_batch_tensor(batch, "label", &label) : status;
}

/* Takes `count` batches; fewer where an epoch ends. Returns how many, or -1 after an error. */
static int take(sl_stream* stream, int count, double* wall, double* cpu) {
    const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    double last = seconds(CLOCK_MONOTONIC);
    int taken = 0;
    while (taken < count) {
        sl_batch* batch = NULL;
        const sl_status status = sl_next(stream, 0, &batch);
        if (status == SL_END_OF_EPOCH) break;
        if (status != SL_OK || look(batch) != SL_OK || sl_batch_release(batch) != SL_OK) return -1;
        const double now = seconds(CLOCK_MONOTONIC);
        wall[taken++] = now - last;
        last = now;
    }
    *cpu = (seconds(CLOCK_THREAD_CPUTIME_ID) - begin) / count;
    return taken;
}

/* Every ring from full to empty; one that an epoch's end cuts short is not counted. */
static int take_rings(sl_stream* stream, int slots, int rings) {
    for (int ring = 0; ring < rings;) {
        if (!wait_for_ring(stream, (uint32_t)slots)) return complain("the ring did not fill");
        const int taken = take(stream, slots, times.wall[ring], &times.cpu[ring]);
        if (taken < 0) return complain("a batch that was ready did not come");
        if (taken == slots) ++ring;
    }
    return 0;
}

static void print_list(const double* values, int count) {
    for (int i = 0; i < count; ++i)
        printf("%s%.3f", i == 0 ? "[" : ", ", 1e6 * values[i]);
    printf("]");
}

int main(int argc, char** argv) {
    static char spec[LARGEST_SPEC];
    const int slots = argc == 5 ? atoi(argv[3]) : 0, rings = argc == 5 ? atoi(argv[4]) : 0;
    FILE* file = argc == 5 ? fopen(argv[2], "re") : NULL;
    if (!file || slots < 1 || slots > MOST_SLOTS || rings < 1 || rings > MOST_RINGS) {
        fprintf(stderr, "usage: sl_bench_take_ready SOCKET SPEC.json SLOTS (1 to %d) RINGS (1 to %d)\n",
                MOST_SLOTS, MOST_RINGS);
        if (file) fclose(file);
        return 2;
    }
    const size_t bytes = fread(spec, 1, sizeof spec, file);
    fclose(file);
    const sl_connect_options where = {.struct_size = sizeof where, .socket = argv[1]};
    const sl_open_options how = {.struct_size = sizeof how, .slots = (uint32_t)slots};
    sl_client* client = NULL;
    sl_stream* stream = NULL;
    if (sl_connect(&where, &client) != SL_OK) return complain("cannot connect");
    if (sl_open(client, spec, bytes, &how, &stream) != SL_OK) return complain("cannot open the stream");
    const int failed = take_rings(stream, slots, rings);
    sl_close(stream);
    sl_disconnect(client);
    if (failed) return failed;
    printf("{\"wall_us\": ");
    for (int ring = 0; ring < rings; ++ring) {
        printf(ring == 0 ? "[" : ", ");
        print_list(times.wall[ring], slots);
    }
    printf("], \"cpu_us\": ");
    print_list(times.cpu, rings);
    printf("}\n");
    return 0;
}
