/* The fault points: every step of the protocol and of a sample's way, by name.
 *
 * SL_FAULT(name) stands in the code at each (fault.h); tests/kills reads this list, so a line added here is a case
 * there. X(name, time, what has just happened): the process that a name begins with reaches the point, and the
 * tests interrupt it there for the time-th time, which for those on the data path is in the middle of an epoch. */
#ifndef SL_SHM_FAULT_POINTS_H
#define SL_SHM_FAULT_POINTS_H

/* clang-format off */
#define SL_FAULT_POINTS(X) \
    X(daemon_accepted, 2, "a client has connected") \
    X(daemon_hello_heard, 2, "a client has said HELLO, and has no answer") \
    X(daemon_hello_replied, 2, "the answer is sent") \
    X(daemon_open_heard, 1, "OPEN is parsed, its scan not asked for") \
    X(daemon_scan_ended, 1, "the scan has come back to the session") \
    X(daemon_stream_made, 1, "the stream's memory is reserved, the client knows nothing of it") \
    X(daemon_segment_sent, 1, "the client has the batches, and no return page yet") \
    X(daemon_event_sent, 1, "the client has all segments") \
    X(daemon_open_replied, 1, "OPEN is answered") \
    X(daemon_worker_told, 1, "a worker is sent a stream's pipeline and samples") \
    X(daemon_worker_mapped, 1, "a worker has said MAPPED") \
    X(daemon_admitted, 40, "a sample has a task") \
    X(daemon_file_opened, 40, "its file is open") \
    X(daemon_sized, 40, "its lane is known") \
    X(daemon_read_submitted, 40, "it has slot and buffer, and its read is asked for") \
    X(daemon_read_completed, 40, "its bytes are here") \
    X(daemon_runnable, 40, "a worker may have it") \
    X(daemon_job_pushed, 40, "its job is in a ring") \
    X(daemon_worker_called, 20, "the worker is woken") \
    X(daemon_completion_popped, 40, "its pixels are taken note of") \
    X(daemon_row_asked, 40, "an assembler thread may copy it") \
    X(daemon_row_copied, 40, "it is a row of a batch") \
    X(daemon_batch_whole, 5, "a batch is whole, and not published") \
    X(daemon_descriptor_written, 5, "its descriptor is in the ring, the count is not") \
    X(daemon_published, 5, "it is published, its client asleep") \
    X(daemon_woken, 5, "the client is woken") \
    X(daemon_return_seen, 3, "a return is seen, and its slot not free yet") \
    X(daemon_return_collected, 3, "the slot is free") \
    X(daemon_epoch_closed, 1, "an epoch's account is closed, its end not published") \
    X(daemon_close_heard, 1, "CLOSE has come") \
    X(daemon_close_replied, 1, "the stream is gone, and CLOSE answered") \
    X(daemon_session_ended, 2, "a client has gone") \
    X(worker_started, 1, "nothing yet") \
    X(worker_hello_said, 1, "codecs are loaded, the sandbox is closed, HELLO is said") \
    X(worker_equipped, 1, "channel, wake-up and input are mapped") \
    X(worker_stream_mapped, 1, "a stream's samples are mapped, MAPPED is not said") \
    X(worker_mapped_said, 1, "MAPPED is said") \
    X(worker_job_taken, 20, "a job is out of the ring") \
    X(worker_header_seen, 2, "a header is glanced at, the answer is not given") \
    X(worker_decoded, 20, "the pixels lie in their slot, DONE is not said") \
    X(worker_done_said, 20, "DONE is said, the daemon not rung") \
    X(worker_rang, 20, "the daemon is rung") \
    X(client_connected, 1, "it has connected and said nothing") \
    X(client_hello_sent, 1, "HELLO is said") \
    X(client_hello_replied, 1, "the daemon has answered") \
    X(client_open_sent, 1, "OPEN is sent") \
    X(client_segment_received, 2, "two of the segments have come") \
    X(client_open_replied, 1, "OPEN is answered, nothing mapped") \
    X(client_batches_mapped, 1, "the batches are mapped, the return page is not") \
    X(client_returns_mapped, 1, "both are") \
    X(client_descriptor_copied, 5, "a descriptor is copied, and not said to be") \
    X(client_descriptor_taken, 5, "it is said to be taken") \
    X(client_leased, 5, "the batch is the caller's") \
    X(client_before_return, 5, "the batch is read, its return not stored") \
    X(client_returned, 5, "the return is stored, the daemon not rung") \
    X(client_rang, 5, "the daemon is rung") \
    X(client_close_sent, 1, "CLOSE is sent") \
    X(client_close_replied, 1, "CLOSE is answered") \
    X(guest_attached, 1, "it has said which crew it is of") \
    X(guest_equipped, 1, "channel and bell are here") \
    X(guest_samples_mapped, 1, "a stream's samples are mapped, MAPPED is not said") \
    X(guest_mapped_said, 1, "MAPPED is said") \
    X(guest_job_taken, 5, "a job is out of the ring") \
    X(guest_job_given, 5, "the caller has it") \
    X(guest_item_made, 5, "the item lies in its slot, DONE is not said") \
    X(guest_done_said, 5, "DONE is said, the daemon not rung") \
    X(guest_rang, 5, "the daemon is rung")
/* clang-format on */

#endif
