/* Documents: JSON texts and traces that the daemon writes into a memfd and the client copies out with pread.
 * The file is never mapped, so it need not be trusted to keep its size. Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stream.h"

enum { SL_DOCUMENT_TIMEOUT_MS = 30000 };
#define SL_DOCUMENT_MAX (UINT64_C(1) << 30)

static sl_status copy_text(int fd, uint64_t bytes, char** text) {
    char* made = malloc((size_t)bytes + 1);
    if (made == NULL)
        return sl_fail(SL_E_NO_MEMORY, ENOMEM, "no memory for a document of %llu bytes",
                       (unsigned long long)bytes);
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = pread(fd, made + done, (size_t)bytes - done, (off_t)done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            int error = count < 0 ? errno : 0;
            free(made);
            return sl_fail(SL_E_PROTOCOL, error, "a document ends after %zu of %llu bytes", done,
                           (unsigned long long)bytes);
        }
        done += (size_t)count;
    }
    made[bytes] = '\0';
    *text = made;
    return SL_OK;
}

sl_status sl_client_document(sl_client* client, uint32_t connection, sl_message* head, size_t bytes,
                             char** text, uint64_t* length) {
    sl_reply reply;
    sl_status status = sl_client_call(client, connection, head, bytes, SL_MSG_DOCUMENT, &reply,
                                      sl_deadline(SL_DOCUMENT_TIMEOUT_MS));
    if (status != SL_OK) return status;
    if (reply.fd < 0)
        return sl_fail(SL_E_PROTOCOL, 0, "%s sent a document without descriptor", client->where);
    uint64_t size = reply.body.document.bytes;
    if (length != NULL) *length = size;
    if (size > SL_DOCUMENT_MAX) {
        status = sl_fail(SL_E_PROTOCOL, 0, "%s sent a document of %llu bytes", client->where,
                         (unsigned long long)size);
    } else {
        status = copy_text(reply.fd, size, text);
    }
    close(reply.fd);
    return status;
}

sl_status sl_client_status(sl_client* client, char** json) {
    if (client == NULL || json == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    *json = NULL;
    sl_status status = sl_check_owner(client->pid);
    if (status != SL_OK) return status;
    sl_message head = {.type = SL_MSG_STATUS};
    return sl_client_document(client, 0, &head, sizeof head, json, NULL);
}

sl_status sl_stream_report(sl_stream* stream, char** json) {
    if (stream == NULL || json == NULL) return sl_fail(SL_E_INVALID_ARGUMENT, 0, "a null argument");
    *json = NULL;
    sl_status status = sl_check_owner(stream->pid);
    if (status != SL_OK) return status;
    sl_msg_stream message = {.head = {.type = SL_MSG_REPORT}};
    pthread_mutex_lock(&stream->lock);
    message.stream_id = stream->stream_id;
    uint32_t connection = stream->connection;
    pthread_mutex_unlock(&stream->lock);
    return sl_client_document(stream->client, connection, &message.head, sizeof message, json, NULL);
}

void sl_free(void* memory) {
    free(memory);
}
