# SPDX-License-Identifier: Apache-2.0
"""XGBoost and LightGBM: the functions that train, and how their objects in C++ are read.

A booster gives pickle its whole model (XGBoost's bytes with its configuration, LightGBM's text, of
which each tree becomes a value of its own). A matrix of data gives none, and is asked for its parts.
"""

import os
import sys

from . import fitted, refs

_looked_at = refs.ByObject()  # Datasets of LightGBM, when their data were still to be had


def of_xgboost():
    """[(function, its name where it is no method)]"""
    training, core = sys.modules["xgboost.training"], sys.modules["xgboost.core"]
    fitted.read_by("xgboost.core", "DMatrix", _matrix)
    return [
        (training.train, "xgboost.train"),
        (training.cv, "xgboost.cv"),
        (core.Booster.update, None),
        (core.Booster.boost, None),
    ]


def of_lightgbm():
    engine, basic = sys.modules["lightgbm.engine"], sys.modules["lightgbm.basic"]
    fitted.read_by("lightgbm.basic", "Dataset", _dataset)
    fitted.read_by("lightgbm.basic", "Booster", _lightgbm_booster)
    return [
        (engine.train, "lightgbm.train"),
        (engine.cv, "lightgbm.cv"),
        (basic.Booster.update, None),
    ]


def _matrix(data):
    """The parts of a DMatrix."""
    found = []
    try:
        for name in ("label", "weight", "base_margin", "data"):
            found.append(("." + name, getattr(data, "get_" + name)()))
        for name in ("group_ptr", "label_lower_bound", "label_upper_bound", "feature_weights"):
            found.append(
                (
                    "." + name,
                    data.get_uint_info(name) if name == "group_ptr" else data.get_float_info(name),
                )
            )
        for name in ("feature_names", "feature_types"):
            found.append(("." + name, getattr(data, name)))
    except Exception as error:
        raise fitted.Missing("a %s of XGBoost" % type(data).__name__) from error
    return found


def _dataset(data):
    """A Dataset before it was built; afterwards its data lie in C++, and cannot be asked for, but
    may have been looked at before.
    """
    held = fitted.attributes_of(data)
    inside = dict(held)
    known = _looked_at.get(data)
    if isinstance(inside.get("data"), (str, bytes, os.PathLike)):
        raise fitted.Missing("a Dataset of LightGBM whose data are in a file")
    if inside.get("data") is None and not known:
        raise fitted.Missing("a Dataset of LightGBM that was built already")
    if not known:
        _looked_at.put(data, True)
    return [("." + name, value) for name, value in held if name not in ("_handle", "_predictor")]


def _lightgbm_booster(booster):
    state = dict(booster.__getstate__())
    text = state.pop("_handle", None)
    found = [("." + name, value) for name, value in sorted(state.items())]
    if isinstance(text, str):
        head, *trees = text.split("\nTree=")
        found.append((".model", head))
        found += [(".tree[%d]" % i, tree) for i, tree in enumerate(trees)]
    return found
