"""MuJoCo model whose collisions are listed where nothing but a floor can be hit, with the same bits as if they were searched for.

MuJoCo looks in every substep which of all bodies come near each other. Where only a plane can be hit, each shape is a pair with
it, and to list these pairs leaves the same contacts in the same order. A trial holds the listed model against the other.
"""

import logging
import warnings
from typing import Any

import numpy as np

from neuro_cli.task.reinforcement.environment import quiet

log = logging.getLogger(__name__)

SUBSTEPS = 200  # of the trial


def listed(made: Any) -> Any:
    """The model of ``made``, an environment of ``gymnasium.make``, with its collisions listed; as it is where that cannot be."""
    plain = made.unwrapped
    reason = _unlisted(plain.model)
    if reason is None:
        with quiet(made.spec.id), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = _model_of(plain.fullpath, plain.model)
        reason = "the outcome would differ" if model is None or not alike(plain.model, model) else None
    if reason is not None:
        log.info("%s: MuJoCo searches for collisions, slower: %s", made.spec.id, reason)
        return plain.model
    return model


def _unlisted(model: Any) -> str | None:
    """Reason why a list of pairs cannot stand for the model's collisions, or could mix their numbers otherwise; else None."""
    from mujoco import mjtGeom

    if model.npair or model.nexclude or model.nflex:
        return "it has pairs, exceptions or soft bodies of its own"
    floors = np.flatnonzero(model.geom_type == int(mjtGeom.mjGEOM_PLANE))
    hits = (model.geom_contype[:, None] & model.geom_conaffinity) | (model.geom_contype & model.geom_conaffinity[:, None])
    first, second = np.nonzero(np.triu(hits, 1))
    if len(floors) != 1 or not len(first) or not ((first == floors[0]) | (second == floors[0])).all():
        return "shapes can hit each other, or nothing"
    shapes = np.union1d(first, second)
    weld = model.body_weldid[model.geom_bodyid[shapes]] == 0
    if model.geom_bodyid[floors[0]] or weld.sum() != 1:
        return "its floor moves, or a shape stands still"
    if model.geom_gap[shapes].any() or model.geom_margin[shapes].any():
        return "its contacts begin before shapes touch"
    given = (model.geom_priority, model.geom_solmix, model.geom_solref, model.geom_solimp, model.geom_condim)
    if any((numbers[shapes] != numbers[shapes[0]]).any() for numbers in given):
        return "its shapes are of several kinds"
    return None


def _model_of(path: str, model: Any) -> Any | None:
    """Model of the file at ``path`` with listed collisions, None where it is not that of ``model``."""
    from mujoco import MjSpec, mjtGeom

    spec = MjSpec.from_file(path)
    for number, geom in enumerate(spec.geoms):
        geom.name = geom.name or f"neuro_shape_{number}"
    whole = spec.compile()
    if whole.ngeom != model.ngeom or not np.array_equal(whole.geom_friction, model.geom_friction):
        return None
    floor = next(geom for geom in spec.geoms if geom.type == mjtGeom.mjGEOM_PLANE)
    for geom in spec.geoms:
        if geom.name != floor.name and (geom.contype & floor.conaffinity or floor.contype & geom.conaffinity):
            own, pair = whole.geom(geom.name), spec.add_pair(geomname1=floor.name, geomname2=geom.name)
            sliding, turning, rolling = np.maximum(whole.geom(floor.name).friction, own.friction)
            pair.friction = [sliding, sliding, turning, rolling, rolling]
            pair.condim, pair.solref, pair.solimp = int(own.condim[0]), own.solref, own.solimp
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    made = spec.compile()
    made.opt.disableflags, made.opt.enableflags = model.opt.disableflags, model.opt.enableflags
    return made


def alike(model: Any, other: Any) -> bool:
    """Tell whether two models move alike, bit by bit, from where they begin on, with controls by chance, and touch something."""
    from mujoco import MjData, mj_step

    datas = [(part, MjData(part)) for part in (model, other)]
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, [-1, 1]).T
    random, touched = np.random.default_rng(0), False
    for _ in range(SUBSTEPS):
        control = random.uniform(low, high)
        for part, data in datas:
            data.ctrl[:] = control
            mj_step(part, data)
        one, two = (data for _, data in datas)
        touched |= bool(one.ncon)
        if not all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("qpos", "qvel", "xpos")):
            return False
    return touched
