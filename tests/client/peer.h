/* The other end of the socket, played by a thread of the test: it answers as a daemon would, with the memory
 * that the test has made, so that the test can make that memory wrong. Not a stand-in for the daemon: the
 * promises under test are about one that lies. */
#ifndef SL_TESTS_CLIENT_PEER_H
#define SL_TESTS_CLIENT_PEER_H

#include <pthread.h>
#include <stdint.h>

#include "segment.h"

typedef struct peer {
    char path[64]; /* of its socket, in the current folder */
    int listener;
    pthread_t thread;
    const segment* memory; /* what OPEN is answered with */
    const segment* second; /* and the OPEN after that; NULL: the same */
    const char* version;   /* NULL: "test" */
    uint16_t major;        /* version in its packets; 0: the treaty's */
    int mute_from;         /* type of message from which on it answers no more; 0: none */
    int leave_out;         /* kind of segment that it does not send; 0: none */
    int refuse;            /* OPEN is answered with this error; 0: it is granted */
    int hangs_up_at;       /* type of message that it answers by hanging up; 0: none */
    int clients;           /* that it serves, one after the other; 0: one */
    int closes;            /* CLOSE messages received; read after peer_stop, as what follows */
    int opens;
    char state[512]; /* that the last OPEN had */
    int connection;  /* -1 before accept; atomic */
} peer;

/* major, mute_from, leave_out and the like are the caller's to set, before this. */
void peer_start(peer* one, const segment* memory);

/* The same in two steps: in between clients queue up, as in front of a daemon that is starting. */
void peer_listen(peer* one);
void peer_serve(peer* one, const segment* memory);

/* Ends the connection, as a daemon that dies. */
void peer_hang_up(peer* one);

/* Waits for the client to have disconnected, and serves nobody else. */
void peer_stop(peer* one);

#endif
