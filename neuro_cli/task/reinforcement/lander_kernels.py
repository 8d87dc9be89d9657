"""Compiled steps of many LunarLanders: Box2D's own functions, and its velocity iterations for many worlds side by side.

A step of Box2D's world solves the velocities of two leg joints and of the legs' contacts 180 times, each time from what the one
before left: nearly all of its time is waiting. Worlds do not depend on each other, so here a row of 16 waits together. The
operations and their order are those of Box2D 2.3 (Erin Catto, zlib licence) in float32, unfused, so the bits are the same.
Collision and positions are Box2D's, and so is the whole of a world whose lander touches the ground, or a leg of which does more
than twice.

Bodies stand in the order of Box2D's island: right leg, lander, left leg, moon; joints: that of the right leg, that of the left
one; contacts: those of the right leg, then those of the left one, which share no body that moves.

Legend: n rows (worlds that are stepped), LANES worlds of a vector.
"""

import math

import numba as nb
import numpy as np

from neuro_cli.task.reinforcement.addresses import (
    ask_on,
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
from neuro_cli.task.reinforcement.policy_kernels import act, choose, meet

_compiled = nb.njit(nogil=True, cache=True, boundscheck=False)
_inlined = nb.njit(forceinline=True, boundscheck=False)

LANES = 16
ITERATIONS, PLACINGS = 6 * 30, 2 * 30  # velocity and position iterations that LunarLander asks for

BOX2D = "2.3.10"  # version of Python's Box2D, in the wheel of which objects stand as below
# where members of Box2D's classes stand, in bytes (2.3, 64 bits); :mod:`lander_batch` compares them with Python's view
FLAGS, ISLAND, PLACE, SINE, COSINE = 4, 8, 12, 20, 24  # of b2Body
LOCAL_CENTRE, CENTRE_BEFORE, CENTRE, ANGLE_BEFORE, ANGLE = 28, 36, 44, 52, 56
SPEED, SPIN, CONTACTS, INVERSE_MASS, INVERSE_INERTIA, SLEEP = 64, 72, 136, 148, 156, 172
AWAKE = 2  # in FLAGS
EDGE_CONTACT, EDGE_NEXT = 8, 24  # of b2ContactEdge
CONTACT_FLAGS, TOUCHING = 8, 2 | 4  # of b2Contact, and its bits of a contact that touches and is not switched off
FIXTURES, FIXTURE_BODY = 96, 16  # of b2Contact, the first of two; of b2Fixture
BODY_A, BODY_B = 96, 104  # of b2Joint
IMPULSE, MOTOR_IMPULSE, TORQUE, MOTOR_SPEED, LOWER, UPPER = 144, 156, 164, 168, 180, 184  # of b2RevoluteJoint
ARM_A, ARM_B, INVERSES, MATRIX, MOTOR_MASS, LIMIT = 196, 204, 228, 244, 280, 284
AT_LOWER, AT_UPPER = 1, 2  # values of LIMIT
STEP_POSITIONS, STEP_VELOCITIES, STEP_SIZE = 24, 32, 40  # of b2SolverData, which begins with a b2TimeStep
ALLOCATOR, MANAGER_PLACE = 128, 103072  # of b2World
# of b2ContactVelocityConstraint
POINT, POINT_SIZE, NORMAL, NORMAL_MASS, FRICTION, POINTS, CONSTRAINT_SIZE = 8, 36, 72, 80, 136, 148, 156
CONSTRAINTS = 56  # of b2ContactSolver
# in the bytes of a lane: 4 b2Position, 4 b2Velocity, b2ContactSolverDef, b2ContactSolver, addresses of contacts
OF_VELOCITIES, OF_DEFINITION, OF_SOLVER, OF_CONTACTS, LANE_SIZE = 48, 96, 160, 240, 320
MOST = 2  # contacts of a leg
# what stands for a world's b2ContactListener: address of its methods, of lander, left and right leg; whether the lander has
# touched the ground, and whether the legs do
LISTENER_BODIES, LISTENER_CRASHED, LISTENER_LEGS, LISTENER_SIZE = 8, 32, 36, 48

# places in ``functions``, the addresses of what is called
FUNCTIONS = (
    "_ZN16b2ContactManager7CollideEv",
    "_ZN16b2ContactManager15FindNewContactsEv",
    "_ZN7b2World5SolveERK10b2TimeStep",
    "_ZN7b2World8SolveTOIERK10b2TimeStep",
    "_ZN6b2Body19SynchronizeFixturesEv",
    "_ZN7b2World18SetContactListenerEP17b2ContactListener",
    "_ZN15b2RevoluteJoint23InitVelocityConstraintsERK12b2SolverData",
    "_ZN15b2RevoluteJoint24SolvePositionConstraintsERK12b2SolverData",
    "_ZN15b2ContactSolverC1EP18b2ContactSolverDef",
    "_ZN15b2ContactSolverD1Ev",
    "_ZN15b2ContactSolver29InitializeVelocityConstraintsEv",
    "_ZN15b2ContactSolver9WarmStartEv",
    "_ZN15b2ContactSolver13StoreImpulsesEv",
    "_ZN15b2ContactSolver24SolvePositionConstraintsEv",
    "sinf",
    "cosf",
    "sin",
    "cos",
)
COLLIDE, FIND, SOLVE, SOLVE_TOI, SYNCHRONISE, LISTEN, INITIALISE, POSITIONS = range(8)
MAKE, DESTROY, PREPARE, WARM_START, STORE, PLACE_CONTACTS, SINF, COSF, SIN, COS = range(8, len(FUNCTIONS))

# columns of ``objects``, the addresses of what Box2D keeps for a world
WORLD, MANAGER, RIGHT, LANDER, LEFT, MOON, RIGHT_JOINT, LEFT_JOINT, OBJECTS = range(9)

# rows of ``lanes``, each of LANES numbers: nine velocities, then of each joint, then of each contact
_JOINT, _ROWS_OF_JOINT, _ROWS_OF_CONTACT = 9, 30, 26
_CONTACT = _JOINT + 2 * _ROWS_OF_JOINT
ROWS = _CONTACT + 2 * MOST * _ROWS_OF_CONTACT
_IX, _IY, _IZ, _MOTOR, _AX, _AY, _BX, _BY, _MA, _MB, _JA, _JB, _WANTED, _MOTOR_MASS, _MOST = range(15)
_CX, _CY, _CZ, _XX, _XY, _XZ, _YX, _YY, _YZ, _ZX, _ZY, _ZZ, _DET3, _DET2, _STATE = range(15, 30)

# of a contact: twice what a point has, the normal, masses and matrix of both points, friction, whether there are two
_RX, _RY, _PRESSED, _DRAGGED, _MASS, _DRAG_MASS, _BIAS, _ROWS_OF_POINT = range(8)
_NX, _NY, _NXX, _NXY, _NYX, _NYY, _KXX, _KXY, _KYX, _KYY, _FRICTION, _BOTH = range(14, 26)

ENDED, EXHAUSTED, NO_NUMBER = range(3)  # why :func:`play` comes back

_MAX_MOVE, _MAX_TURN = np.float32(2.0), np.float32(0.5) * np.float32(3.14159265359)
_SLOW, _SLOW_TURN = np.float32(0.01), np.float32(2.0) / np.float32(180.0) * np.float32(3.14159265359)
_TIME_TO_SLEEP, _ZERO = np.float32(0.5), np.float32(0)
_GRAVITY = np.float32(-10.0)


@_inlined
def _tell(listener, contact, begins):
    """Note that a contact begins or ends, as gymnasium's listener does for each of the bodies in turn."""
    one = load_address(load_address(contact + FIXTURES) + FIXTURE_BODY)
    other = load_address(load_address(contact + FIXTURES + 8) + FIXTURE_BODY)
    lander = load_address(listener + LISTENER_BODIES)
    if begins and (one == lander or other == lander):
        store_int(listener + LISTENER_CRASHED, 1)
    for leg in range(2):
        body = load_address(listener + LISTENER_BODIES + 8 + 8 * leg)
        if one == body or other == body:
            store_int(listener + LISTENER_LEGS + 4 * leg, 1 if begins else 0)


@nb.cfunc(nb.void(nb.int64, nb.int64), cache=True)
def contact_begins(listener, contact):
    _tell(listener, contact, True)


@nb.cfunc(nb.void(nb.int64, nb.int64), cache=True)
def contact_ends(listener, contact):
    _tell(listener, contact, False)


@nb.cfunc(nb.void(nb.int64, nb.int64, nb.int64), cache=True)
def contact_solved(listener, contact, more):
    """Do nothing before and after a contact is solved."""


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


@_inlined
def _drag(s, k, point, vx, vy, w, tx, ty, friction, mb, jb):
    """Friction at a point of a contact: the velocities after it."""
    rx, ry = s[(point + _RX) * LANES + k], s[(point + _RY) * LANES + k]
    old, most = s[(point + _DRAGGED) * LANES + k], friction * s[(point + _PRESSED) * LANES + k]
    made = old + s[(point + _DRAG_MASS) * LANES + k] * -((vx - w * ry) * tx + (vy + w * rx) * ty)
    made = made if made < most else most
    made = -most if -most > made else made
    s[(point + _DRAGGED) * LANES + k] = made
    push = made - old
    px, py = push * tx, push * ty
    return vx + mb * px, vy + mb * py, w + jb * (rx * py - ry * px)


@_inlined
def _solve_contact(s, leg, joint, at):
    """One velocity iteration of a contact of a leg with the moon, in all lanes; its rows begin at ``at``."""
    for k in range(LANES):
        vx, vy, w = s[leg * LANES + k], s[(leg + 1) * LANES + k], s[(leg + 2) * LANES + k]
        mb, jb = s[(joint + _MB) * LANES + k], s[(joint + _JB) * LANES + k]
        nx, ny = s[(at + _NX) * LANES + k], s[(at + _NY) * LANES + k]
        friction = s[(at + _FRICTION) * LANES + k]
        vx, vy, w = _drag(s, k, at, vx, vy, w, ny, -nx, friction, mb, jb)
        vx, vy, w = _drag(s, k, at + _ROWS_OF_POINT, vx, vy, w, ny, -nx, friction, mb, jb)
        # pressure: at one point, or at two that are solved together, by the first of four cases that holds
        second = at + _ROWS_OF_POINT
        rx, ry = s[(at + _RX) * LANES + k], s[(at + _RY) * LANES + k]
        qx, qy = s[(second + _RX) * LANES + k], s[(second + _RY) * LANES + k]
        one, two = s[(at + _PRESSED) * LANES + k], s[(second + _PRESSED) * LANES + k]
        bx = (vx - w * ry) * nx + (vy + w * rx) * ny - s[(at + _BIAS) * LANES + k]
        by = (vx - w * qy) * nx + (vy + w * qx) * ny - s[(second + _BIAS) * LANES + k]
        mass, mass_two = -s[(at + _MASS) * LANES + k], -s[(second + _MASS) * LANES + k]
        single = one + mass * bx
        single = single if single > _ZERO else _ZERO
        bx -= s[(at + _KXX) * LANES + k] * one + s[(at + _KYX) * LANES + k] * two
        by -= s[(at + _KXY) * LANES + k] * one + s[(at + _KYY) * LANES + k] * two
        x1 = -(s[(at + _NXX) * LANES + k] * bx + s[(at + _NYX) * LANES + k] * by)
        y1 = -(s[(at + _NXY) * LANES + k] * bx + s[(at + _NYY) * LANES + k] * by)
        x2 = mass * bx
        y3 = mass_two * by
        holds_1 = (x1 >= _ZERO) & (y1 >= _ZERO)
        holds_2 = (x2 >= _ZERO) & (s[(at + _KXY) * LANES + k] * x2 + by >= _ZERO)
        holds_3 = (y3 >= _ZERO) & (s[(at + _KYX) * LANES + k] * y3 + bx >= _ZERO)
        holds_4 = (bx >= _ZERO) & (by >= _ZERO)
        x = _ZERO if holds_3 | holds_4 else one
        y = y3 if holds_3 else (_ZERO if holds_4 else two)
        x = x1 if holds_1 else (x2 if holds_2 else x)
        y = y1 if holds_1 else (_ZERO if holds_2 else y)
        both = s[(at + _BOTH) * LANES + k] > _ZERO
        x, y = (x if both else single), (y if both else two)
        s[(at + _PRESSED) * LANES + k] = x
        s[(second + _PRESSED) * LANES + k] = y
        d, e = x - one, y - two
        px, py, ox, oy = d * nx, d * ny, e * nx, e * ny
        s[leg * LANES + k] = vx + mb * (px + ox)
        s[(leg + 1) * LANES + k] = vy + mb * (py + oy)
        s[(leg + 2) * LANES + k] = w + jb * ((rx * py - ry * px) + (qx * oy - qy * ox))


@_compiled
def iterate(s, right, left):
    """All velocity iterations in the lanes ``s`` (ROWS * LANES,) with at most ``right`` and ``left`` contacts of a leg."""
    assert s.size == ROWS * LANES and max(right, left) <= MOST
    for _ in range(ITERATIONS):
        _solve_joint(s, 0, _JOINT)
        _solve_joint(s, 6, _JOINT + _ROWS_OF_JOINT)
        if right > 0:
            _solve_contact(s, 0, _JOINT, _CONTACT)
        if right > 1:
            _solve_contact(s, 0, _JOINT, _CONTACT + _ROWS_OF_CONTACT)
        if left > 0:
            _solve_contact(s, 6, _JOINT + _ROWS_OF_JOINT, _CONTACT + 2 * _ROWS_OF_CONTACT)
        if left > 1:
            _solve_contact(s, 6, _JOINT + _ROWS_OF_JOINT, _CONTACT + 3 * _ROWS_OF_CONTACT)


@_compiled
def _row_of_contact(c, right):
    """First row of a lane's contact ``c``, of which the first ``right`` are of the right leg."""
    return _CONTACT + (c if c < right else MOST + c - right) * _ROWS_OF_CONTACT


@_compiled
def _prepare_contacts(objects, functions, step, memory, count):
    """Let Box2D prepare the ``count`` contacts whose addresses are in a lane's memory, and apply the impulses of before."""
    definition, solver = memory + OF_DEFINITION, memory + OF_SOLVER
    for i in range(3):
        store_address(definition + 8 * i, load_address(step + 8 * i))
    store_address(definition + 24, memory + OF_CONTACTS)
    store_int(definition + 32, count)
    store_address(definition + 40, memory)
    store_address(definition + 48, memory + OF_VELOCITIES)
    store_address(definition + 56, objects[WORLD] + ALLOCATOR)
    call_with(functions[MAKE], solver, definition)
    call_on(functions[PREPARE], solver)
    call_on(functions[WARM_START], solver)


@_compiled
def _lay_out_contact(s, k, row, constraint):
    """Lane ``k`` of the rows from ``row`` on: a contact that Box2D prepared."""
    points = load_int(constraint + POINTS)
    for p in range(2):
        at, point = constraint + p * POINT_SIZE + POINT, row + p * _ROWS_OF_POINT
        for i in range(_ROWS_OF_POINT):
            s[(point + i) * LANES + k] = load_float(at + 4 * i) if p < points else _ZERO
    for i in range(2):
        s[(row + _NX + i) * LANES + k] = load_float(constraint + NORMAL + 4 * i)
    for i in range(8):
        s[(row + _NXX + i) * LANES + k] = load_float(constraint + NORMAL_MASS + 4 * i)
    s[(row + _FRICTION) * LANES + k] = load_float(constraint + FRICTION)
    s[(row + _BOTH) * LANES + k] = np.float32(points - 1)


@_compiled
def _put_back_contact(s, k, row, constraint):
    for p in range(load_int(constraint + POINTS)):
        for i in (_PRESSED, _DRAGGED):
            value = s[(row + p * _ROWS_OF_POINT + i) * LANES + k]
            store_float(constraint + p * POINT_SIZE + POINT + 4 * i, value)


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
def _begin_lane(s, k, objects, functions, step, memory, right, left):
    """Integrate the velocities of a world, let Box2D prepare its contacts and joints, and lay them out in lane ``k``."""
    h = load_float(step)
    positions, velocities = memory, memory + OF_VELOCITIES
    for b in range(4):
        body = objects[RIGHT + b]
        store_int(body + ISLAND, b)
        for i in range(2):
            store_float(body + CENTRE_BEFORE + 4 * i, load_float(body + CENTRE + 4 * i))
            store_float(positions + 12 * b + 4 * i, load_float(body + CENTRE + 4 * i))
        store_float(body + ANGLE_BEFORE, load_float(body + ANGLE))
        store_float(positions + 12 * b + 8, load_float(body + ANGLE))
        store_float(velocities + 12 * b, load_float(body + SPEED))
        store_float(velocities + 12 * b + 4, load_float(body + SPEED + 4) + (h * _GRAVITY if b < 3 else _ZERO))
        store_float(velocities + 12 * b + 8, load_float(body + SPIN))
    store_address(step + STEP_POSITIONS, positions)
    store_address(step + STEP_VELOCITIES, velocities)
    if right + left > 0:
        _prepare_contacts(objects, functions, step, memory, right + left)
    for j in range(2):
        call_with(functions[INITIALISE], objects[RIGHT_JOINT + j], step)
    for j in range(2):
        _lay_out_joint(s, k, _JOINT + j * _ROWS_OF_JOINT, objects[RIGHT_JOINT + j], step)
    for c in range(right + left):
        constraint = load_address(memory + OF_SOLVER + CONSTRAINTS) + c * CONSTRAINT_SIZE
        _lay_out_contact(s, k, _row_of_contact(c, right), constraint)
    for i in range(9):
        s[i * LANES + k] = load_float(velocities + 4 * i)


@_compiled
def _end_lane(s, k, objects, functions, step, memory, right, left):
    """Take the velocities of lane ``k`` to its world: integrate positions, let Box2D correct them, move the bodies."""
    h = load_float(step)
    positions, velocities, solver = memory, memory + OF_VELOCITIES, memory + OF_SOLVER
    for c in range(right + left):
        constraint = load_address(solver + CONSTRAINTS) + c * CONSTRAINT_SIZE
        _put_back_contact(s, k, _row_of_contact(c, right), constraint)
    if right + left > 0:
        call_on(functions[STORE], solver)
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
        solved = right + left == 0 or ask_on(functions[PLACE_CONTACTS], solver) != 0
        for j in range(2):
            if ask_with(functions[POSITIONS], objects[RIGHT_JOINT + j], step) == 0:
                solved = False
        if solved:
            break
    if right + left > 0:
        call_on(functions[DESTROY], solver)
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
def _touching(body, addresses, most):
    """Count the contacts of a body that touch; the addresses of the first ``most`` are written to ``addresses``."""
    count = 0
    edge = load_address(body + CONTACTS)
    while edge != 0:
        contact = load_address(edge + EDGE_CONTACT)
        if load_int(contact + CONTACT_FLAGS) & TOUCHING == TOUCHING:
            if count < most:
                store_address(addresses + 8 * count, contact)
            count += 1
        edge = load_address(edge + EDGE_NEXT)
    return count


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
def listen(functions, world, listener):
    """Have a world tell a listener of its contacts, in place of the one that it told."""
    call_with(functions[LISTEN], world, listener)


@_compiled
def advance(slots, actions, objects, functions, scatter, cursors, engines, step, memory, lanes):
    """Step the worlds of ``slots`` (n,) by ``actions`` (n,).

    ``step``: the address of a b2SolverData; ``memory``: that of LANES * LANE_SIZE bytes; ``lanes`` (ROWS * LANES,) float32 is
    written over.
    """
    assert actions.size >= slots.size and objects.shape == (cursors.size, OBJECTS) and scatter.shape[0] == cursors.size
    assert lanes.size == ROWS * LANES and functions.size == len(FUNCTIONS)
    for r in range(slots.size):
        slot = slots[r]
        assert 0 <= slot < cursors.size and 0 <= cursors[slot] <= scatter.shape[1] - 2
        one, two = scatter[slot, cursors[slot]], scatter[slot, cursors[slot] + 1]
        cursors[slot] += 2
        if actions[r] != 0:
            _fire(objects[slot, LANDER], actions[r], one, two, functions, engines)
        call_on(functions[COLLIDE], objects[slot, MANAGER])
    for first in range(0, slots.size, LANES):
        _solve(slots[first : first + LANES], objects, functions, step, memory, lanes)
    for r in range(slots.size):
        call_with(functions[SOLVE_TOI], objects[slots[r], WORLD], step)


@_compiled
def _solve(slots, objects, functions, step, memory, lanes):
    """Solve at most LANES worlds at once, as Box2D's b2World::Solve does each."""
    rights, lefts = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    most_right, most_left, none = 0, 0, True
    lanes[:] = _ZERO  # of lanes without a world, and of places without a contact
    for k in range(slots.size):
        own, mine = objects[slots[k]], memory + k * LANE_SIZE
        right = _touching(own[RIGHT], mine + OF_CONTACTS, MOST)
        left = _touching(own[LEFT], mine + OF_CONTACTS + 8 * right, MOST) if right <= MOST else 0
        if right > MOST or left > MOST or _touching(own[LANDER], mine, 0) > 0:
            rights[k] = -1
            call_with(functions[SOLVE], own[WORLD], step)
            continue
        rights[k], lefts[k], none = right, left, False
        most_right, most_left = max(most_right, right), max(most_left, left)
        _begin_lane(lanes, k, own, functions, step, mine, right, left)
    if none:
        return
    iterate(lanes, most_right, most_left)
    for k in range(slots.size):
        if rights[k] >= 0:
            _end_lane(lanes, k, objects[slots[k]], functions, step, memory + k * LANE_SIZE, rights[k], lefts[k])


@_compiled
def judge(slots, actions, objects, listeners, floors, scales, shaping, totals, steps, limit, raw, over):
    """Observations ``raw`` (n, 8) after a step; rewards go to ``totals``, ``over`` (n,) tells which episodes have ended.

    ``listeners``: the address of those of all slots.
    """
    half_width, half_height, fps = scales
    assert raw.shape == (slots.size, 8) and over.size >= slots.size and objects.shape == (floors.size, OBJECTS)
    assert shaping.size == totals.size == steps.size == floors.size  # slots are those that were advanced
    for r in range(slots.size):
        slot = slots[r]
        lander = objects[slot, LANDER]
        x = (np.float64(load_float(lander + PLACE)) - half_width) / half_width
        y = (np.float64(load_float(lander + PLACE + 4)) - floors[slot]) / half_height
        vx = np.float64(load_float(lander + SPEED)) * half_width / fps
        vy = np.float64(load_float(lander + SPEED + 4)) * half_height / fps
        angle = np.float64(load_float(lander + ANGLE))
        spin = 20.0 * np.float64(load_float(lander + SPIN)) / fps
        listener = listeners + slot * LISTENER_SIZE
        left, right = np.float64(load_int(listener + LISTENER_LEGS)), np.float64(load_int(listener + LISTENER_LEGS + 4))
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
        elif load_int(listener + LISTENER_CRASHED) != 0 or abs(x) >= 1.0:
            reward, over[r] = -100.0, True
        totals[slot] += reward


@_compiled
def play(slots, episode, which, raw, seen, outputs, choices, over, normaliser, record, chain, worlds, marks):
    """Play on until an episode has ended, random numbers are used up, or outputs are no numbers; which of these.

    Row r plays ``episode``[r] by policy ``which``[r], from its observation ``raw``[r] (8,) on. ``normaliser`` and ``record``: of
    :func:`policy_kernels.meet`, ``chain``: of ``act`` there; ``worlds``: of :func:`advance`, ``marks``: of :func:`judge`.
    """
    mean, inverse, clip = normaliser
    steps, sums = record
    layers, parameters, widest = chain
    scatter, cursors = worlds[2], worlds[3]
    assert slots.size == raw.shape[0] and choices.size >= slots.size
    while True:
        for r in range(slots.size):
            if cursors[slots[r]] == scatter.shape[1]:
                return EXHAUSTED
        meet(raw, episode, mean, inverse, clip, steps, sums, seen)
        act(layers, parameters, which, seen, outputs, widest)
        if not choose(outputs, 0, choices):
            return NO_NUMBER
        advance(slots, choices, *worlds)
        judge(slots, choices, *marks, raw, over)  # type: ignore[call-arg]
        for r in range(slots.size):
            if over[r]:
                return ENDED
