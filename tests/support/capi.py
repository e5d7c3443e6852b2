"""The C API through ctypes, for the Python tests: what a client in C sees, down to the bytes of each tensor.

One thread per handle, as the header says. Every status below zero is raised as Error with the record that
sl_last_error has; Stream.next gives None for the end of an epoch. The library is the one below $SL_BUILD_DIR.
"""

import ctypes
import json
import os
import pathlib

DEFAULT_BUILD = pathlib.Path(__file__).parents[2] / "build" / "dev"
BUILD = pathlib.Path(os.environ.get("SL_BUILD_DIR", DEFAULT_BUILD)).resolve()

OK, END_OF_EPOCH, END, TIMEOUT = 0, 1, 2, 3
NO_SPAWN = 1
NO_RECONNECT = -2
ALLOW_CHANGE = 1
MAX_DIMS = 8
STATE_MAX = 320
WAIT_MS = 60_000


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("socket", ctypes.c_char_p),
                ("program", ctypes.c_char_p), ("timeout_ms", ctypes.c_int64), ("reconnect_ms", ctypes.c_int64)]


class _OpenOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("slots", ctypes.c_uint32), ("level", ctypes.c_int32),
                ("flags", ctypes.c_uint32), ("timeout_ms", ctypes.c_int64), ("state", ctypes.c_char_p),
                ("items", ctypes.c_void_p)]


class _Items(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("count", ctypes.c_uint64),
                ("index", ctypes.POINTER(ctypes.c_uint64)), ("hints", ctypes.POINTER(ctypes.c_double))]


class _Tensor(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("dtype", ctypes.c_int32), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_uint64), ("ndim", ctypes.c_int32), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("reserved", ctypes.c_uint32),
                ("shape", ctypes.c_int64 * MAX_DIMS), ("strides", ctypes.c_int64 * MAX_DIMS)]


class _StreamInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("batch_size", ctypes.c_uint32),
                ("batches_per_epoch", ctypes.c_uint64), ("samples", ctypes.c_uint64),
                ("epochs", ctypes.c_uint64),
                ("first_epoch", ctypes.c_uint64), ("slots", ctypes.c_uint32), ("level", ctypes.c_int32),
                ("first_batch", ctypes.c_uint64)]


class _Stats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("ready", ctypes.c_uint32),
                *((name, ctypes.c_uint64) for name in (
                    "batches", "samples", "failed", "substituted", "warnings", "retried", "bytes_read", "decode_ns",
                    "light_samples", "medium_samples", "heavy_samples", "light_ns", "medium_ns", "heavy_ns",
                    "class_errors", "predicted", "absolute_error_ppm", "predicted_ns", "actual_ns", "ring_full_ns",
                    "wait_ns", "waits", "reconnects", "lost"))]


class _BatchInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("count", ctypes.c_uint32), ("epoch", ctypes.c_uint64),
                ("batch", ctypes.c_uint64), ("step", ctypes.c_uint64)]


class _SampleInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("lane", ctypes.c_uint32), ("sample_id", ctypes.c_uint64),
                ("planned_id", ctypes.c_uint64), ("valid", ctypes.c_uint32), ("predicted_us", ctypes.c_uint32),
                ("actual_us", ctypes.c_uint32), ("reserved", ctypes.c_uint32)]


class _Error(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("code", ctypes.c_int32), ("os_errno", ctypes.c_int32),
                ("sample_kind", ctypes.c_uint32), ("sample_id", ctypes.c_uint64), ("offset", ctypes.c_int64),
                ("message", ctypes.c_char * 512), ("path", ctypes.c_char * 1024)]


class TraceEvent(ctypes.Structure):
    """sl_trace_event; DECODE is one of its kinds."""
    _fields_ = [("begin_ns", ctypes.c_uint64), ("end_ns", ctypes.c_uint64), ("sample_id", ctypes.c_uint64),
                ("step", ctypes.c_uint64), ("amount", ctypes.c_uint64), ("stream", ctypes.c_uint32),
                ("epoch", ctypes.c_uint32), ("batch", ctypes.c_uint32), ("predicted_us", ctypes.c_uint32),
                ("track", ctypes.c_uint16), ("kind", ctypes.c_uint8), ("lane", ctypes.c_uint8),
                ("error", ctypes.c_uint32)]


TRACE_DECODE, TRACE_PUBLISH = 3, 5


class _Trace(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("workers", ctypes.c_uint32), ("assemblers", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32), ("count", ctypes.c_uint64), ("overwritten", ctypes.c_uint64),
                ("now_ns", ctypes.c_uint64), ("events", ctypes.POINTER(TraceEvent))]


def _sized(kind, **values):
    return kind(struct_size=ctypes.sizeof(kind), **values)


def _load():
    library = ctypes.CDLL(str(BUILD / "lib" / "libspeedyloader.so"))
    library.sl_status_name.restype = ctypes.c_char_p
    library.sl_sample_kind_name.restype = ctypes.c_char_p
    library.sl_next.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.sl_open.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p,
                                ctypes.c_void_p]
    library.sl_stream_state.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.sl_free.argtypes = [ctypes.c_void_p]
    return library


class Error(Exception):
    """A call's error: `code` ("SL_E_SAMPLE"), `kind` ("truncated", or "" if it is not one sample's), ..."""

    def __init__(self, library):
        record = _sized(_Error)
        library.sl_last_error(ctypes.byref(record))
        self.code = library.sl_status_name(record.code).decode()
        self.kind = library.sl_sample_kind_name(record.sample_kind).decode() if record.sample_kind else ""
        self.sample_id = record.sample_id
        self.offset = record.offset
        self.path = record.path.decode()
        self.message = record.message.decode()
        super().__init__(f"{self.code}: {self.message}")


class Batch:
    """A lease on a batch; release() ends it."""

    def __init__(self, library, handle):
        self._library = library
        self._handle = handle

    def raw(self, name):
        """(dtype number, shape, bytes) of a tensor."""
        tensor = _sized(_Tensor)
        if self._library.sl_batch_tensor(self._handle, name.encode(), ctypes.byref(tensor)) != OK:
            raise Error(self._library)
        return tensor.dtype, tuple(tensor.shape[:tensor.ndim]), ctypes.string_at(tensor.data, tensor.bytes)

    def array(self, name):
        """A copy of a tensor as a NumPy array; bfloat16 as its 16 bits in uint16."""
        import numpy

        kinds = ["float32", "float16", "uint16", "uint8", "int64", "uint64", "int32"]
        dtype, shape, data = self.raw(name)
        return numpy.frombuffer(data, kinds[dtype]).reshape(shape)

    def address(self, name):
        tensor = _sized(_Tensor)
        if self._library.sl_batch_tensor(self._handle, name.encode(), ctypes.byref(tensor)) != OK:
            raise Error(self._library)
        return tensor.data

    def ids(self):
        return memoryview(self.raw("sample_id")[2]).cast("Q").tolist()

    def valid(self):
        return list(self.raw("valid")[2])

    def place(self):
        """(epoch, batch, step)."""
        info = _sized(_BatchInfo)
        if self._library.sl_batch_get_info(self._handle, ctypes.byref(info)) != OK:
            raise Error(self._library)
        return info.epoch, info.batch, info.step

    def samples(self):
        """What is known of each row: sample_id, lane, predicted_us, actual_us, ..."""
        rows = []
        for row in range(self.raw("valid")[1][0]):
            rows.append(_sized(_SampleInfo))
            if self._library.sl_batch_sample(self._handle, row, ctypes.byref(rows[-1])) != OK:
                raise Error(self._library)
        return rows

    def release(self):
        if self._library.sl_batch_release(self._handle) != OK:
            raise Error(self._library)


class Stream:
    def __init__(self, library, handle):
        self._library = library
        self._handle = handle
        info = _sized(_StreamInfo)
        library.sl_stream_get_info(handle, ctypes.byref(info))
        self.samples = info.samples
        self.batches_per_epoch = info.batches_per_epoch
        self.first_epoch = info.first_epoch
        self.first_batch = info.first_batch

    def next(self, timeout_ms=WAIT_MS):
        """(status, Batch or None)."""
        batch = ctypes.c_void_p()
        status = self._library.sl_next(self._handle, timeout_ms, ctypes.byref(batch))
        if status < 0:
            raise Error(self._library)
        return status, Batch(self._library, batch) if status == OK else None

    def batches(self):
        """Every batch of every epoch; each is released when the next is asked for."""
        while True:
            status, batch = self.next()
            assert status != TIMEOUT, f"no batch within {WAIT_MS} ms"
            if status == END:
                return
            if batch is not None:
                yield batch
                batch.release()

    def state(self):
        """The saved position, as text."""
        text = ctypes.create_string_buffer(STATE_MAX)
        if self._library.sl_stream_state(self._handle, text, STATE_MAX) != OK:
            raise Error(self._library)
        return text.value.decode()

    def stats(self):
        stats = _sized(_Stats)
        if self._library.sl_stream_stats(self._handle, ctypes.byref(stats)) != OK:
            raise Error(self._library)
        return stats

    def report(self):
        text = ctypes.c_void_p()
        if self._library.sl_stream_report(self._handle, ctypes.byref(text)) != OK:
            raise Error(self._library)
        return _document(self._library, text)

    def close(self):
        if self._library.sl_close(self._handle) != OK:
            raise Error(self._library)


class Client:
    """A connection to the daemon at a socket; a context manager. Starts no daemon. reconnect_ms: how long its
    streams look for another one; the default is the library's."""

    def __init__(self, socket, program="test", reconnect_ms=0):
        self._library = _load()
        options = _sized(_Options, flags=NO_SPAWN, socket=str(socket).encode(), program=program.encode(),
                         timeout_ms=30_000, reconnect_ms=reconnect_ms)
        handle = ctypes.c_void_p()
        if self._library.sl_connect(ctypes.byref(options), ctypes.byref(handle)) != OK:
            raise Error(self._library)
        self._handle = handle

    def open(self, spec, slots=0, state=None, flags=0, items=None):
        """`items`: (the item of each position, their hints or None), for a spec of kind "items"."""
        text = json.dumps(spec).encode()
        order = None
        if items is not None:
            index, hints = items
            order = _sized(_Items, count=len(index), index=(ctypes.c_uint64 * len(index))(*index),
                           hints=None if hints is None else (ctypes.c_double * len(hints))(*hints))
        options = _sized(_OpenOptions, slots=slots, flags=flags,
                         state=None if state is None else state.encode(),
                         items=None if order is None else ctypes.addressof(order))
        handle = ctypes.c_void_p()
        status = self._library.sl_open(self._handle, text, len(text), ctypes.byref(options),
                                       ctypes.byref(handle))
        if status != OK:
            raise Error(self._library)
        return Stream(self._library, handle)

    def status(self):
        text = ctypes.c_void_p()
        if self._library.sl_client_status(self._handle, ctypes.byref(text)) != OK:
            raise Error(self._library)
        return _document(self._library, text)

    def trace(self):
        """(events, how many were overwritten): TraceEvent objects, oldest first."""
        trace = _sized(_Trace)
        if self._library.sl_client_trace(self._handle, ctypes.byref(trace)) != OK:
            raise Error(self._library)
        events = [TraceEvent.from_buffer_copy(event) for event in trace.events[:trace.count]]
        self._library.sl_free(trace.events)
        return events, trace.overwritten

    def disconnect(self):
        self._library.sl_disconnect(self._handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disconnect()


def _document(library, text):
    document = json.loads(ctypes.string_at(text.value).decode())
    library.sl_free(text)
    return document
