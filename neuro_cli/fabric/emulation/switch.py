"""Switch between TAP ports in user space, with a rate per port and direction and a delay per frame.

It replaces the kernel's ``netem``, which many kernels lack. A frame that enters port i leaves port j when i's uplink has sent it,
j's downlink has received it, and ``delay`` has passed. The ports do the segmentation (virtio headers), so one read and one write
move up to 64 KiB. A port is not read while its uplink is booked ahead. Senders thus feel back-pressure, as from a network card's
queue, and only frames beyond a downlink's queue are lost.

numba compiles the loop, so no interpreter handles a frame and no C compiler is needed.
"""

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import register_jitable

FRAME = 65536 + 128  # bytes of the largest frame with its header
RING = 4096  # frames that can wait at a port
HEADER = 10  # bytes of struct virtio_net_hdr
AHEAD = 200_000  # ns that an uplink may be booked ahead before its port is not read
SECOND = 1_000_000_000

_POLLIN = 1
_CLOCK_MONOTONIC = 1
# bytes of a segment's headers when the frame has no length, and bytes that Ethernet adds (preamble, check sum, gap)
_SEGMENT_HEADERS = 66
_ETHERNET = 24

_read: Any = types.ExternalFunction("read", types.ssize_t(types.intc, types.uintp, types.size_t))
_write: Any = types.ExternalFunction("write", types.ssize_t(types.intc, types.uintp, types.size_t))
_ppoll: Any = types.ExternalFunction("ppoll", types.intc(types.uintp, types.uintp, types.uintp, types.uintp))
_clock: Any = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.uintp))


@register_jitable
def _now(time) -> Any:
    _clock(_CLOCK_MONOTONIC, time.ctypes.data)
    return time[0] * SECOND + time[1]


@register_jitable
def _wire_time(frame, length, rate):
    """Return the nanoseconds that a frame occupies a link of ``rate`` bit/s, headers of every segment included."""
    if rate <= 0:
        return 0
    headers, size = frame[2] | frame[3] << 8, frame[4] | frame[5] << 8
    payload = length - HEADER - headers
    segments = (payload + size - 1) // size if frame[1] and size and payload > 0 else 1
    repeated = headers if headers else _SEGMENT_HEADERS
    return np.int64((length - HEADER + (segments - 1) * repeated + segments * _ETHERNET) * 8e9 / rate)


@njit(cache=True)
def run_switch(ports, rate, delay, queue):
    """Move frames between ``ports`` until killed.

    ports: (n,) int32 descriptors of non-blocking TAP ports with virtio headers; port k has the MAC address ending in k + 1.
    rate: bit/s of a port, each way; 0: not limited. delay: ns, one way. queue: ns that a downlink may be booked ahead.
    """
    n = len(ports)
    # bounds: every buffer is free or waits at a port, at most RING at each, so left <= n * RING + 1 and each slot is below that;
    # reads of a frame's header stay in its first HEADER + 14 bytes, which every frame has
    buffers = np.empty((n * RING + 1, FRAME), np.uint8)  # the system allocates pages at their first use
    base = buffers.ctypes.data
    free = np.arange(n * RING + 1)
    left = len(free)
    due, slot, length = np.zeros((n, RING), np.int64), np.zeros((n, RING), np.int64), np.zeros((n, RING), np.int64)
    head, tail = np.zeros(n, np.int64), np.zeros(n, np.int64)
    up, down = np.zeros(n, np.int64), np.zeros(n, np.int64)  # ns at which a link is free again
    time, wait = np.zeros(2, np.int64), np.zeros(2, np.int64)
    polled = np.zeros((n, 2), np.int32)  # struct pollfd: descriptor, then events and revents of 16 bits each
    while True:
        t = _now(time)
        following = t + SECOND  # ns at which the next event is due
        for j in range(n):
            while head[j] != tail[j] and due[j, head[j] % RING] <= t:
                place = head[j] % RING
                # a full port drops the frame, as a network card would
                _write(ports[j], base + slot[j, place] * FRAME, length[j, place])
                free[left] = slot[j, place]
                left += 1
                head[j] += 1
            if head[j] != tail[j]:
                following = min(following, due[j, head[j] % RING])
        for i in range(n):
            polled[i, 0], polled[i, 1] = ports[i], _POLLIN
            if up[i] - t > AHEAD:  # unread frames fill the port's queue, which stops the sender
                polled[i, 1] = 0
                following = min(following, up[i] - AHEAD)
        nap = max(following - _now(time), 0)
        wait[0], wait[1] = nap // SECOND, nap % SECOND
        _ppoll(polled.ctypes.data, n, wait.ctypes.data, 0)
        for i in range(n):
            # 16 frames of one port in a row at most: due frames of other ports do not wait long
            for _ in range(16 if polled[i, 1] >> 16 & _POLLIN else 0):
                t = _now(time)
                if up[i] - t > AHEAD or left == 0:
                    break
                mine = free[left - 1]
                size = _read(ports[i], base + mine * FRAME, FRAME)
                if size < HEADER + 14:
                    break
                frame = buffers[mine]
                cost = _wire_time(frame, size, rate)
                up[i] = max(up[i], t) + cost
                to = frame[HEADER + 5] - 1  # the last byte of the MAC address is the port's number + 1
                if frame[HEADER] & 1 or to < 0 or to >= n or to == i:
                    continue  # broadcasts are dropped: neighbours have fixed entries
                # the downlink sends after what it has booked, and not before the uplink has sent the frame
                arrival = max(down[to] + cost, up[i])
                if arrival - up[i] > queue or tail[to] - head[to] >= RING:
                    continue
                left -= 1
                down[to] = arrival
                place = tail[to] % RING
                due[to, place], slot[to, place], length[to, place] = arrival + delay, mine, size
                tail[to] += 1
