"""Compiled steps of many LunarLanders: Box2D's own functions, and its velocity iterations for many worlds side by side.

A step of Box2D's world solves the velocities of two leg joints 180 times, each time from what the one before left: nearly all
of its time is waiting. Worlds do not depend on each other, so here a row of 16 waits together. The operations and their order
are those of Box2D 2.3 in float32, unfused, so the bits are the same. A world in which a leg touches the ground is solved by
Box2D itself, as is all of collision, and in every world its positions.

Bodies stand in the order of Box2D's island: right leg, lander, left leg; joints: that of the right leg, that of the left one.

Legend: n rows (worlds that are stepped), LANES worlds of a vector.
"""

import math

import numba as nb
import numpy as np

from neuro_cli.task.reinforcement.addresses import (
    ask_with,
    call_double,
    call_float,
    call_on,
    call_with,
    load_address,
    load_float,
    load_int,
    load_short,
    store_address,
    store_float,
    store_int,
    store_short,
)

# with the lock of Python: Box2D calls a listener in Python when a contact begins or ends
_compiled = nb.njit(cache=True, boundscheck=False)
_inlined = nb.njit(forceinline=True, boundscheck=False)

LANES = 16
ITERATIONS, PLACINGS = 6 * 30, 2 * 30  # velocity and position iterations that LunarLander asks for

# where members of Box2D's classes stand, in bytes (2.3, 64 bits); :mod:`lander_batch` compares them with Python's view
FLAGS, ISLAND, PLACE, SINE, COSINE = 4, 8, 12, 20, 24  # of b2Body
LOCAL_CENTRE, CENTRE_BEFORE, CENTRE, ANGLE_BEFORE, ANGLE = 28, 36, 44, 52, 56
SPEED, SPIN, CONTACTS, INVERSE_MASS, INVERSE_INERTIA, SLEEP = 64, 72, 136, 148, 156, 172
AWAKE = 2  # in FLAGS
EDGE_CONTACT, EDGE_NEXT = 8, 24  # of b2ContactEdge
CONTACT_FLAGS, TOUCHING = 8, 2  # of b2Contact, and the bit in it
BODY_A, BODY_B = 96, 104  # of b2Joint
IMPULSE, MOTOR_IMPULSE, TORQUE, MOTOR_SPEED, LOWER, UPPER = 144, 156, 164, 168, 180, 184  # of b2RevoluteJoint
ARM_A, ARM_B, INVERSES, MATRIX, MOTOR_MASS, LIMIT = 196, 204, 228, 244, 280, 284
AT_LOWER, AT_UPPER = 1, 2  # values of LIMIT
STEP_POSITIONS, STEP_VELOCITIES, STEP_SIZE = 24, 32, 40  # of b2SolverData, which begins with a b2TimeStep

# places in ``functions``, the addresses of what is called
FUNCTIONS = (
    "_ZN16b2ContactManager7CollideEv",
    "_ZN16b2ContactManager15FindNewContactsEv",
    "_ZN7b2World5SolveERK10b2TimeStep",
    "_ZN7b2World8SolveTOIERK10b2TimeStep",
    "_ZN6b2Body19SynchronizeFixturesEv",
    "_ZN15b2RevoluteJoint23InitVelocityConstraintsERK12b2SolverData",
    "_ZN15b2RevoluteJoint24SolvePositionConstraintsERK12b2SolverData",
    "sinf",
    "cosf",
    "sin",
    "cos",
)
COLLIDE, FIND, SOLVE, SOLVE_TOI, SYNCHRONISE, INITIALISE, POSITIONS, SINF, COSF, SIN, COS = range(len(FUNCTIONS))

# columns of ``objects``, the addresses of what Box2D keeps for a world
WORLD, MANAGER, RIGHT, LANDER, LEFT, RIGHT_JOINT, LEFT_JOINT, OBJECTS = range(8)

# rows of ``lanes``, each of LANES numbers: nine velocities, then of each joint
_JOINT, _ROWS_OF_JOINT = 9, 30
ROWS = _JOINT + 2 * _ROWS_OF_JOINT
_IX, _IY, _IZ, _MOTOR, _AX, _AY, _BX, _BY, _MA, _MB, _JA, _JB, _WANTED, _MOTOR_MASS, _MOST = range(15)
_CX, _CY, _CZ, _XX, _XY, _XZ, _YX, _YY, _YZ, _ZX, _ZY, _ZZ, _DET3, _DET2, _STATE = range(15, 30)

_MAX_MOVE, _MAX_TURN = np.float32(2.0), np.float32(0.5) * np.float32(3.14159265359)
_SLOW, _SLOW_TURN = np.float32(0.01), np.float32(2.0) / np.float32(180.0) * np.float32(3.14159265359)
_TIME_TO_SLEEP, _ZERO = np.float32(0.5), np.float32(0)
_GRAVITY = np.float32(-10.0)


@_inlined
def _solve_joint(s, leg, joint):
    """One velocity iteration of a joint between the lander and a leg whose velocities begin at row ``leg``, in all lanes."""
    for k in range(LANES):
        vax, vay, wa = s[3 * LANES + k], s[4 * LANES + k], s[5 * LANES + k]
        vbx, vby, wb = s[leg * LANES + k], s[(leg + 1) * LANES + k], s[(leg + 2) * LANES + k]
        ix, iy, iz = s[(joint + _IX) * LANES + k], s[(joint + _IY) * LANES + k], s[(joint + _IZ) * LANES + k]
        ax, ay = s[(joint + _AX) * LANES + k], s[(joint + _AY) * LANES + k]
        bx, by = s[(joint + _BX) * LANES + k], s[(joint + _BY) * LANES + k]
        ma, mb = s[(joint + _MA) * LANES + k], s[(joint + _MB) * LANES + k]
        ja, jb = s[(joint + _JA) * LANES + k], s[(joint + _JB) * LANES + k]
        xx, xy, xz = s[(joint + _XX) * LANES + k], s[(joint + _XY) * LANES + k], s[(joint + _XZ) * LANES + k]
        yx, yy, yz = s[(joint + _YX) * LANES + k], s[(joint + _YY) * LANES + k], s[(joint + _YZ) * LANES + k]
        zx, zy, zz = s[(joint + _ZX) * LANES + k], s[(joint + _ZY) * LANES + k], s[(joint + _ZZ) * LANES + k]
        cx, cy, cz = s[(joint + _CX) * LANES + k], s[(joint + _CY) * LANES + k], s[(joint + _CZ) * LANES + k]
        det3, det2 = s[(joint + _DET3) * LANES + k], s[(joint + _DET2) * LANES + k]
        state = s[(joint + _STATE) * LANES + k]
        # the motor
        old, most = s[(joint + _MOTOR) * LANES + k], s[(joint + _MOST) * LANES + k]
        push = s[(joint + _MOTOR_MASS) * LANES + k] * (wb - wa - s[(joint + _WANTED) * LANES + k])
        motor = old + push
        motor = motor if motor < most else most
        motor = -most if -most > motor else motor
        push = motor - old
        wa -= ja * push
        wb += jb * push
        # the point, and the angle where it is at a limit
        dx = vbx - wb * by - vax + wa * ay
        dy = vby + wb * bx - vay - wa * ax
        dw = wb - wa
        fx = -(det3 * (dx * cx + dy * cy + dw * cz))
        fy = -(det3 * (xx * (dy * zz - dw * zy) + xy * (dw * zx - dx * zz) + xz * (dx * zy - dy * zx)))
        fz = -(det3 * (xx * (yy * dw - yz * dy) + xy * (yz * dx - yx * dw) + xz * (yx * dy - yy * dx)))
        free = state == _ZERO
        turned = iz + fz
        leaves = turned < _ZERO if state == np.float32(AT_LOWER) else turned > _ZERO
        reduced = free | leaves
        gx = -dx if free else -dx + iz * zx
        gy = -dy if free else -dy + iz * zy
        rx = det2 * (yy * gx - yx * gy)
        ry = det2 * (xx * gy - xy * gx)
        px, py = (rx if reduced else fx), (ry if reduced else fy)
        pz = (_ZERO if free else -iz) if reduced else fz
        s[(joint + _MOTOR) * LANES + k] = motor
        s[(joint + _IX) * LANES + k] = ix + px
        s[(joint + _IY) * LANES + k] = iy + py
        s[(joint + _IZ) * LANES + k] = _ZERO if reduced else turned
        s[3 * LANES + k] = vax - ma * px
        s[4 * LANES + k] = vay - ma * py
        s[5 * LANES + k] = wa - ja * (ax * py - ay * px + pz)
        s[leg * LANES + k] = vbx + mb * px
        s[(leg + 1) * LANES + k] = vby + mb * py
        s[(leg + 2) * LANES + k] = wb + jb * (bx * py - by * px + pz)


@_compiled
def iterate(s):
    """All velocity iterations of both joints in the lanes ``s`` (ROWS * LANES,)."""
    for _ in range(ITERATIONS):
        _solve_joint(s, 0, _JOINT)
        _solve_joint(s, 6, _JOINT + _ROWS_OF_JOINT)


@_compiled
def _lay_out_joint(s, k, row, joint, step):
    """Lane ``k`` of the rows from ``row`` on: what Box2D worked out for a joint at the address ``joint``."""
    for i in range(3):
        s[(row + _IX + i) * LANES + k] = load_float(joint + IMPULSE + 4 * i)
    s[(row + _MOTOR) * LANES + k] = load_float(joint + MOTOR_IMPULSE)
    for i in range(4):
        s[(row + _AX + i) * LANES + k] = load_float(joint + ARM_A + 4 * i)
        s[(row + _MA + i) * LANES + k] = load_float(joint + INVERSES + 4 * i)
    s[(row + _WANTED) * LANES + k] = load_float(joint + MOTOR_SPEED)
    s[(row + _MOTOR_MASS) * LANES + k] = -load_float(joint + MOTOR_MASS)
    s[(row + _MOST) * LANES + k] = load_float(step) * load_float(joint + TORQUE)
    for i in range(9):
        s[(row + _XX + i) * LANES + k] = load_float(joint + MATRIX + 4 * i)
    xx, xy, xz = s[(row + _XX) * LANES + k], s[(row + _XY) * LANES + k], s[(row + _XZ) * LANES + k]
    yx, yy, yz = s[(row + _YX) * LANES + k], s[(row + _YY) * LANES + k], s[(row + _YZ) * LANES + k]
    zx, zy, zz = s[(row + _ZX) * LANES + k], s[(row + _ZY) * LANES + k], s[(row + _ZZ) * LANES + k]
    cx, cy, cz = yy * zz - yz * zy, yz * zx - yx * zz, yx * zy - yy * zx
    s[(row + _CX) * LANES + k], s[(row + _CY) * LANES + k], s[(row + _CZ) * LANES + k] = cx, cy, cz
    det3, det2 = xx * cx + xy * cy + xz * cz, xx * yy - yx * xy
    s[(row + _DET3) * LANES + k] = np.float32(1) / det3 if det3 != _ZERO else det3
    s[(row + _DET2) * LANES + k] = np.float32(1) / det2 if det2 != _ZERO else det2
    s[(row + _STATE) * LANES + k] = np.float32(load_int(joint + LIMIT))


@_compiled
def _put_back_joint(s, k, row, joint):
    for i in range(3):
        store_float(joint + IMPULSE + 4 * i, s[(row + _IX + i) * LANES + k])
    store_float(joint + MOTOR_IMPULSE, s[(row + _MOTOR) * LANES + k])


@_compiled
def _begin_lane(s, k, objects, functions, step, positions, velocities):
    """Integrate the velocities of a world, let Box2D prepare its joints, and lay them out in lane ``k``."""
    h = load_float(step)
    for b in range(3):
        body = objects[RIGHT + b]
        store_int(body + ISLAND, b)
        for i in range(2):
            store_float(body + CENTRE_BEFORE + 4 * i, load_float(body + CENTRE + 4 * i))
            store_float(positions + 12 * b + 4 * i, load_float(body + CENTRE + 4 * i))
        store_float(body + ANGLE_BEFORE, load_float(body + ANGLE))
        store_float(positions + 12 * b + 8, load_float(body + ANGLE))
        store_float(velocities + 12 * b, load_float(body + SPEED))
        store_float(velocities + 12 * b + 4, load_float(body + SPEED + 4) + h * _GRAVITY)
        store_float(velocities + 12 * b + 8, load_float(body + SPIN))
    store_address(step + STEP_POSITIONS, positions)
    store_address(step + STEP_VELOCITIES, velocities)
    for j in range(2):
        call_with(functions[INITIALISE], objects[RIGHT_JOINT + j], step)
    for j in range(2):
        _lay_out_joint(s, k, _JOINT + j * _ROWS_OF_JOINT, objects[RIGHT_JOINT + j], step)
    for i in range(9):
        s[i * LANES + k] = load_float(velocities + 4 * i)


@_compiled
def _end_lane(s, k, objects, functions, step, positions, velocities):
    """Take the velocities of lane ``k`` to its world: integrate positions, let Box2D correct them, move the bodies."""
    h = load_float(step)
    for j in range(2):
        _put_back_joint(s, k, _JOINT + j * _ROWS_OF_JOINT, objects[RIGHT_JOINT + j])
    for b in range(3):
        vx, vy, w = s[3 * b * LANES + k], s[(3 * b + 1) * LANES + k], s[(3 * b + 2) * LANES + k]
        mx, my, turn = h * vx, h * vy, h * w
        square = mx * mx + my * my
        if square > _MAX_MOVE * _MAX_MOVE:
            ratio = _MAX_MOVE / np.sqrt(square)
            vx, vy = vx * ratio, vy * ratio
        if turn * turn > _MAX_TURN * _MAX_TURN:
            w *= _MAX_TURN / abs(turn)
        at = positions + 12 * b
        store_float(at, load_float(at) + h * vx)
        store_float(at + 4, load_float(at + 4) + h * vy)
        store_float(at + 8, load_float(at + 8) + h * w)
        body = objects[RIGHT + b]
        store_float(body + SPEED, vx)
        store_float(body + SPEED + 4, vy)
        store_float(body + SPIN, w)
    store_address(step + STEP_POSITIONS, positions)
    store_address(step + STEP_VELOCITIES, velocities)
    solved = False
    for _ in range(PLACINGS):
        solved = True
        for j in range(2):
            if ask_with(functions[POSITIONS], objects[RIGHT_JOINT + j], step) == 0:
                solved = False
        if solved:
            break
    for b in range(3):
        body, at = objects[RIGHT + b], positions + 12 * b
        x, y, angle = load_float(at), load_float(at + 4), load_float(at + 8)
        store_float(body + CENTRE, x)
        store_float(body + CENTRE + 4, y)
        store_float(body + ANGLE, angle)
        sine, cosine = call_float(functions[SINF], angle), call_float(functions[COSF], angle)
        store_float(body + SINE, sine)
        store_float(body + COSINE, cosine)
        lx, ly = load_float(body + LOCAL_CENTRE), load_float(body + LOCAL_CENTRE + 4)
        store_float(body + PLACE, x - (cosine * lx - sine * ly))
        store_float(body + PLACE + 4, y - (sine * lx + cosine * ly))
    _rest(objects, h, solved)
    for b in (RIGHT, LEFT, LANDER):  # the order of Box2D's list
        call_on(functions[SYNCHRONISE], objects[b])
    call_on(functions[FIND], objects[MANAGER])


@_compiled
def _rest(objects, h, solved):
    """Count the time that bodies have been at rest, and put them to sleep after half a second."""
    least = np.float32(np.inf)
    for b in range(3):
        body = objects[RIGHT + b]
        vx, vy, w = load_float(body + SPEED), load_float(body + SPEED + 4), load_float(body + SPIN)
        if w * w > _SLOW_TURN * _SLOW_TURN or vx * vx + vy * vy > _SLOW * _SLOW:
            store_float(body + SLEEP, _ZERO)
            least = _ZERO
        else:
            rested = load_float(body + SLEEP) + h
            store_float(body + SLEEP, rested)
            least = min(least, rested)
    if least >= _TIME_TO_SLEEP and solved:
        for b in range(3):
            body = objects[RIGHT + b]
            store_short(body + FLAGS, np.uint16(load_short(body + FLAGS) & ~AWAKE))
            store_float(body + SLEEP, _ZERO)
            for i in range(3):  # speed and spin stand beside each other
                store_float(body + SPEED + 4 * i, _ZERO)


@_compiled
def _contacts(objects):
    """Whether bodies of a world have contacts, and whether one of these touches."""
    some, touching = False, False
    for b in range(3):
        edge = load_address(objects[RIGHT + b] + CONTACTS)
        while edge != 0:
            some = True
            if load_int(load_address(edge + EDGE_CONTACT) + CONTACT_FLAGS) & TOUCHING:
                touching = True
            edge = load_address(edge + EDGE_NEXT)
    return some, touching


@_compiled
def _fire(lander, action, one, two, functions, engines):
    """Push the lander by its main engine (2) or a side engine (1, 3); ``one`` and ``two`` scatter the push."""
    angle = np.float64(load_float(lander + ANGLE))
    sine, cosine = call_double(functions[SIN], angle), call_double(functions[COS], angle)
    x, y = np.float64(load_float(lander + PLACE)), np.float64(load_float(lander + PLACE + 4))
    main, main_place, side, side_away, side_height, tail, scale = engines
    if action == 2:
        ox = sine * (main_place + 2 * one) - cosine * two
        oy = -cosine * (main_place + 2 * one) - sine * two
        px, py, power = x + ox, y + oy, main
    else:
        away = 3 * two + (action - 2) * side_away / scale
        ox = sine * one - cosine * away
        oy = -cosine * one - sine * away
        px, py, power = x + ox - sine * tail / scale, y + oy + cosine * side_height, side
    fx, fy = np.float32(-ox * power), np.float32(-oy * power)
    rx = np.float32(px) - load_float(lander + CENTRE)
    ry = np.float32(py) - load_float(lander + CENTRE + 4)
    inverse, inertia = load_float(lander + INVERSE_MASS), load_float(lander + INVERSE_INERTIA)
    store_float(lander + SPEED, load_float(lander + SPEED) + inverse * fx)
    store_float(lander + SPEED + 4, load_float(lander + SPEED + 4) + inverse * fy)
    store_float(lander + SPIN, load_float(lander + SPIN) + inertia * (rx * fy - ry * fx))


@_compiled
def advance(slots, actions, objects, functions, scatter, cursors, engines, step, buffers, lanes, flying, met):
    """Step the worlds of ``slots`` (n,) by ``actions`` (n,).

    ``met`` (n,) tells for which a contact was there before or is there now. ``step``: the address of a b2SolverData;
    ``buffers``: that of 18 * LANES float32; ``lanes`` (ROWS * LANES,) float32 and ``flying`` (n,) are written over.
    """
    count = 0
    for r in range(slots.size):
        slot = slots[r]
        one, two = scatter[slot, cursors[slot]], scatter[slot, cursors[slot] + 1]
        cursors[slot] += 2
        if actions[r] != 0:
            _fire(objects[slot, LANDER], actions[r], one, two, functions, engines)
        some, touching = _contacts(objects[slot])
        met[r] = some
        if some:
            call_on(functions[COLLIDE], objects[slot, MANAGER])
            _, touching = _contacts(objects[slot])
        if touching:
            call_with(functions[SOLVE], objects[slot, WORLD], step)
        else:
            flying[count] = slot
            count += 1
    for first in range(0, count, LANES):
        size = min(LANES, count - first)
        if size < LANES:
            lanes[:] = _ZERO  # of lanes without a world
        for k in range(size):
            places = buffers + 72 * k
            _begin_lane(lanes, k, objects[flying[first + k]], functions, step, places, places + 36)
        iterate(lanes)
        for k in range(size):
            places = buffers + 72 * k
            _end_lane(lanes, k, objects[flying[first + k]], functions, step, places, places + 36)
    for r in range(slots.size):
        call_with(functions[SOLVE_TOI], objects[slots[r], WORLD], step)
        some, _ = _contacts(objects[slots[r]])
        met[r] = met[r] or some


@_compiled
def judge(slots, actions, objects, legs, crashed, floors, scales, shaping, totals, steps, limit, raw, over):
    """Observations ``raw`` (n, 8) after a step; rewards go to ``totals``, ``over`` (n,) tells which episodes have ended."""
    half_width, half_height, fps = scales
    for r in range(slots.size):
        slot = slots[r]
        lander = objects[slot, LANDER]
        x = (np.float64(load_float(lander + PLACE)) - half_width) / half_width
        y = (np.float64(load_float(lander + PLACE + 4)) - floors[slot]) / half_height
        vx = np.float64(load_float(lander + SPEED)) * half_width / fps
        vy = np.float64(load_float(lander + SPEED + 4)) * half_height / fps
        angle = np.float64(load_float(lander + ANGLE))
        spin = 20.0 * np.float64(load_float(lander + SPIN)) / fps
        left, right = np.float64(legs[slot, 0]), np.float64(legs[slot, 1])
        raw[r, 0], raw[r, 1], raw[r, 2], raw[r, 3] = x, y, vx, vy
        raw[r, 4], raw[r, 5], raw[r, 6], raw[r, 7] = angle, spin, left, right
        now = -100 * math.sqrt(x * x + y * y) - 100 * math.sqrt(vx * vx + vy * vy) - 100 * abs(angle) + 10 * left + 10 * right
        reward = now - shaping[slot]
        shaping[slot] = now
        if actions[r] == 2:
            reward -= 0.30
        elif actions[r] != 0:
            reward -= 0.03
        steps[slot] += 1
        over[r] = steps[slot] >= limit
        if load_short(lander + FLAGS) & AWAKE == 0:
            reward, over[r] = 100.0, True
        elif crashed[slot] or abs(x) >= 1.0:
            reward, over[r] = -100.0, True
        totals[slot] += reward
