# SPDX-License-Identifier: Apache-2.0
"""XGBoost, LightGBM and CatBoost: the functions that train, and how their objects in C++ are read.

A booster gives pickle its whole model: XGBoost bytes with its configuration, LightGBM a text,
CatBoost bytes. Of each the trees become records of their own, by the round of boosting that made
them, and the rest, or the whole, one behind them: the first round that differs is named, and nothing
is left out where a tree could not be told from the rest. A matrix of data gives pickle nothing, and
is asked for its parts.
"""

import os
import re
import sys

from . import faults, fitted, refs, ubjson

_looked_at = refs.ByObject()  # Datasets of LightGBM, when their data were still to be had


def of_xgboost():
    """[(function, its name where it is no method)]"""
    training, core = sys.modules["xgboost.training"], sys.modules["xgboost.core"]
    fitted.read_by("xgboost.core", "DMatrix", _matrix)
    fitted.read_by("xgboost.core", "Booster", _xgboost_booster)
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


def of_catboost():
    core = sys.modules["catboost.core"]
    fitted.read_by("catboost.core", "CatBoost", _catboost_model)
    fitted.read_by("catboost.core", "Pool", _pool)
    classes = (core.CatBoost, core.CatBoostClassifier, core.CatBoostRegressor, core.CatBoostRanker)
    searches = ("grid_search", "randomized_search", "select_features")
    return [
        (core.train, "catboost.train"),
        (core.cv, "catboost.cv"),
        *[(cls.fit, None) for cls in classes],
        *[(getattr(core.CatBoost, name), None) for name in searches],
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


# ---------------------------------------------------------------- boosters


def _by_rounds(trees, rounds):
    """[(name, digest of a tree)]; rounds: how many trees were there before each round, and in all;
    [0]: not known. A large model is not held once more in its trees.
    """
    found, last = [], 0
    for i, tree in enumerate(trees):
        while last + 1 < len(rounds) and i >= rounds[last + 1]:
            last += 1
        place = ".round[%d].tree[%d]" % (last, i - rounds[last])
        name = place if len(rounds) > 1 else ".tree[%d]" % i
        found.append((name, fitted.Own(fitted.hashed(tree))))
    return found


def _state_of(thing):
    """What it gives to pickle."""
    try:
        return dict(thing.__getstate__())
    except Exception as error:  # XGBoost's, before it has seen data
        faults.pass_on(error)
        raise fitted.Missing("a %s" % type(thing).__name__) from error


def _attributes(state):
    return [("." + str(name), value) for name, value in sorted(state.items())]


def _lightgbm_booster(booster):
    state = _state_of(booster)
    text = state.pop("_handle", None)
    if not isinstance(text, str):
        return _attributes(state)
    head, *trees = text.split("\nTree=")
    told = re.search(r"^num_tree_per_iteration=(\d+)$", head, re.M)
    together = max(1, int(told.group(1))) if told else 1
    rest = head
    if trees:
        trees[-1], end, tail = trees[-1].partition("\nend of trees")
        rest = head + end + tail
    found = _by_rounds(map(_bytes, trees), range(0, len(trees) + together, together))
    return [*found, (".model", fitted.Own(_bytes(rest))), *_attributes(state)]


def _bytes(text):
    return text.encode("utf-8", "surrogatepass")


def _xgboost_booster(booster):
    state = _state_of(booster)
    handle = state.pop("handle", None)
    if handle is None:
        return _attributes(state)
    whole = bytes(handle)
    try:
        trees, rounds = ubjson.trees(whole)
    except ValueError:  # another format than we know: no names, and the whole all the same
        trees, rounds = [], [0]
    found = _by_rounds((whole[first:end] for first, end in trees), rounds)
    rest, at = [], 0
    for first, end in trees:
        rest.append(whole[at:first])
        at = end
    rest.append(whole[at:])
    return [*found, (".model", fitted.Own(b"".join(rest))), *_attributes(state)]


# ---------------------------------------------------------------- CatBoost


def _catboost_model(model):
    """A model gives pickle its bytes, and no more of its attributes than its parameters."""
    state = _state_of(model)
    whole = state.pop("__model", None)
    held = dict(fitted.attributes_of(model))
    held.pop("_object", None)
    found = []
    if whole is not None:
        try:
            trees = _catboost_trees(model)
            found = _by_rounds(trees, range(len(trees) + 1))
            found.append((".model", fitted.Own(_without_date(whole))))
            held["evals_result_"] = model.evals_result_
        except Exception as error:
            faults.pass_on(error)
            raise fitted.Missing("a model of CatBoost") from error
    return [*found, (".state", state), *_attributes(held)]


def _without_date(whole):
    """The bytes of a model without the time at which it was trained, and without a number that was
    drawn for it, of 32 to 35 letters, so that all behind it may lie elsewhere.
    """
    copy = sys.modules["catboost.core"].CatBoost()
    copy._load_from_string(whole)
    metadata = copy.get_metadata()
    for name in ("model_guid", "train_finish_time"):
        if name in metadata:
            metadata[name] = ""
    return copy._serialize_model()


def _catboost_trees(model):
    """What a tree gives: the values of its leaves, their weights where they are to be had, and its
    splits as CatBoost shows them. One that differs in something else differs in the whole.
    """
    counts = model.get_tree_leaf_counts()
    values, weights = model.get_leaf_values(), None
    try:
        weights = model.get_leaf_weights()
    except Exception as error:  # of models with several classes
        faults.pass_on(error)
    total = int(sum(counts))
    width, trees, at = len(values) // total if total else 0, [], 0
    for number, count in enumerate(map(int, counts)):
        parts = [values[at * width : (at + count) * width].tobytes(), _splits(model, number)]
        if weights is not None:
            parts.append(weights[at : at + count].tobytes())
        trees.append(fitted.hashed(*parts))
        at += count
    return trees


def _splits(model, number):
    try:
        return repr(model._get_tree_splits(number, None)).encode("utf-8", "replace")
    except Exception as error:  # of a category, whose name stands in the data alone
        faults.pass_on(error)
        return b""


def _pool(data):
    """The parts of a Pool; of quantized data and of categories CatBoost gives none out."""
    found = []
    try:
        for name in ("label", "weight", "baseline", "group_id_hash", "features", "feature_names"):
            found.append(("." + name, getattr(data, "get_" + name)()))
    except Exception as error:
        faults.pass_on(error)
        raise fitted.Missing("a %s of CatBoost" % type(data).__name__) from error
    return found
