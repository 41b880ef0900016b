# SPDX-License-Identifier: Apache-2.0
"""What the hooks record, job by job: names, phases, occurrences, steps. The double of the library
keeps the records.
"""

import hashlib
from pathlib import Path

import pytest
from conftest import FULL
from test_torch_unchanged import CASES
from torch_observed import observed as run_observed

pytestmark = pytest.mark.usefixtures("python")

NET = ["a.weight", "a.bias", "norm.weight", "norm.bias", "b.weight", "b.bias"]
BUFFERS = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
FOLDER = Path(__file__).parent / "torch_jobs"
NEEDS_COMPILER = {"compiled", "graphs"}  # which asks whether it captures


def observed(job, level="tensors", args=(), options=(), extra=()):
    """The job under the agent: the run that test_torch_unchanged.py has of it, or one without
    PyTorch's compiler, which decides nothing about what is recorded.
    """
    shared = (job, level, args, options) in CASES
    light = not (FULL or shared or job in NEEDS_COMPILER)
    return run_observed(job, level, args, options, extra, light)


def place(job, code):
    """FILE:LINE of the one line of a job that begins with this code."""
    lines = (FOLDER / f"{job}.py").read_text().split("\n")
    (number,) = (n for n, line in enumerate(lines, 1) if line.strip().startswith(code))
    return f"{job}.py:{number}"


# ---------------------------------------------------------------- one ordinary training loop


def test_first_weights_and_buffers_come_once_before_the_first_update():
    job = observed("train")
    first = job.select(phase="init", kind="weight")
    assert [r["name"] for r in first] == [
        "a.weight",
        "a.bias",
        "norm.weight",
        "norm.bias",
        *BUFFERS,
        "b.weight",
        "b.bias",
    ]
    assert {(r["step"], r["scope"]) for r in first} == {(0, "Net")}
    assert {r["name"]: r["op"] for r in first}["norm.weight"] == "BatchNorm1d"
    update = next(
        r for r in job.select(kind="weight", phase="optimizer") if r["name"] == "a.weight"
    )
    assert first[0]["link"] < update["link"] and first[0]["digest"] != update["digest"]


def test_every_step_has_gradients_weights_moments_and_hyperparameters():
    job = observed("train")
    for step in range(3):
        assert job.names(step=step, kind="gradient") == NET
        assert job.names(step=step, kind="weight", phase="optimizer") == NET + BUFFERS
        moments = [name + part for name in NET for part in (".step", ".exp_avg", ".exp_avg_sq")]
        assert job.names(step=step, kind="moment") == moments
        assert job.names(step=step, kind="hyper") == [
            "lr[0]",
            "betas[0][0]",
            "betas[0][1]",
            "eps[0]",
            "weight_decay[0]",
            "initial_lr[0]",
        ]
    rates = [r["digest"] for r in job.select(kind="hyper", name="lr[0]")]
    assert len(set(rates)) == 3
    # the last look, at the end of the process
    assert [r["name"] for r in job.select(step=3)] == NET + moments + BUFFERS


def test_weights_are_those_that_the_step_leaves():
    """The oracle: weight after step k is what the gradient of step k+1 is taken at, so repeating
    the job gives the digest.
    """
    job = observed("train")
    import torch

    torch.manual_seed(0)
    weight = torch.nn.Linear(4, 8).weight
    content = weight.detach().numpy().tobytes()
    want = hashlib.sha256(repr((10, [8, 4])).encode() + content).hexdigest()[:16]
    assert job.select(phase="init", name="a.weight")[0]["digest"] == want


@pytest.mark.parametrize("more", [(), ("sparse",)], ids=["conjugate", "sparse"])
def test_moments_without_plain_memory_are_recorded_in_every_step(more):
    """Those that stay where they are were sent as rows that nobody had filled; a sparse one
    switched the agent off.
    """
    job = observed("moments", args=more)
    names = ["plain", "turned"] + (["sparse.indices", "sparse.values"] if more else [])
    for step in range(5):
        assert job.names(step=step, kind="moment") == [
            "param[0][0]." + name for name in names
        ], step
    turned = [r["digest"] for r in job.select(kind="moment", name="param[0][0].turned")]
    assert len(set(turned[:5])) == 5


def bounds(count):
    """Sixteen equal runs of elements that begin at multiples of 16."""
    length = -(-count // 16) + -(-(-count // 16)) % 16
    return [(i, min(i + length, count)) for i in range(0, count, length)]


def large_weights(steps):
    """(initial weight, [the weight and its momentum after each step]) of torch_jobs/large.py,
    computed once more.
    """
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(512, 513)
    first, after = model.weight.detach().clone().numpy().reshape(-1), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 512)).pow(2).mean().backward()
        optimizer.step()
        momentum = optimizer.state[model.weight]["momentum_buffer"]
        after.append(
            tuple(t.detach().clone().numpy().reshape(-1) for t in (model.weight, momentum))
        )
    return first, after


def digest(array, shape=None):
    return hashlib.sha256(repr((10, shape or [array.size])).encode() + array.tobytes()).hexdigest()[
        :16
    ]


def test_a_large_weight_is_first_recorded_whole_and_in_parts():
    job = observed("large", args=("3",))
    weight = large_weights(0)[0]
    found = {r["name"]: r for r in job.select(phase="init", kind="weight")}
    parts = {"weight[%d:%d]" % (a, b): (a, b) for a, b in bounds(weight.size)}
    assert list(found) == ["weight", *parts, "bias"] and len(parts) == 16
    assert found["weight"]["digest"] == digest(weight, [513, 512])
    for name, (a, b) in parts.items():
        assert (
            found[name]["digest"] == digest(weight[a:b])
            and found[name]["offset"] == a
            and found[name]["whole"] == weight.size
        )


def test_all_parts_of_large_weights_and_moments_are_recorded_in_the_first_steps_and_at_the_end():
    job = observed("large", args=("3",))
    _first, after = large_weights(3)
    for step in range(4):  # the fourth: after the last one, at the end of the process
        for kind, name, now in zip(
            ("weight", "moment"), ("weight", "weight.momentum_buffer"), after[min(step, 2)]
        ):
            found = {
                r["name"]: r["digest"]
                for r in job.select(phase="optimizer", kind=kind, step=step)
                if "whole" in r
            }
            assert found == {
                "%s[%d:%d]" % (name, a, b): digest(now[a:b]) for a, b in bounds(now.size)
            }
    assert job.steps(kind="gradient", name="weight") == [0, 1, 2] and job.select(
        kind="gradient", name="weight"
    )[0]["shape"] == [513, 512]
    assert job.note("parts") == "16"


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_then_the_parts_take_turns_and_sixteen_steps_see_each_of_them(optimizer):
    job = observed("large", args=("36", optimizer))
    for kind in ("weight", "moment"):
        seen = [
            [
                r["offset"]
                for r in job.select(phase="optimizer", kind=kind, step=step)
                if "whole" in r
            ]
            for step in range(37)
        ]
        each = 2 if kind == "moment" and optimizer == "Adam" else 1  # moments of the one weight
        assert {len(s) for s in seen[:16]} == {16 * each} == {len(seen[36])}
        assert {len(s) for s in seen[16:36]} == {each}
        assert all(
            {o for s in seen[at : at + 16] for o in s} == {a for a, _b in bounds(513 * 512)}
            for at in range(16, 20)
        )


def test_a_resumed_run_records_the_parts_that_the_other_records():
    whole, resumed = (
        observed("large", args=("40", "Adam", "save")),
        observed("large", args=("40", "Adam", "resume")),
    )
    name = lambda job, step: [
        r["name"] for r in job.select(phase="optimizer", step=step) if "whole" in r
    ]  # noqa: E731
    assert [name(whole, step) for step in range(33, 40)] == [
        name(resumed, step - 17) for step in range(33, 40)
    ]
    assert len(name(whole, 33)) == 3


def test_the_weights_are_whole_beside_a_checkpoint():
    job = observed("large", args=("40", "Adam", "save"))
    saved = [r for r in job.select(phase="checkpoint", kind="weight", step=17) if "whole" in r]
    assert [r["offset"] for r in saved] == [a for a, _b in bounds(513 * 512)]


def test_the_last_step_that_steps_lets_pass_is_whole():
    job = observed("large", args=("40",), extra=(("TWINRUN_STEPS", "24"), ("FAKE_STEPS", "24")))
    assert (
        len([r for r in job.select(phase="optimizer", kind="weight", step=23) if "whole" in r])
        == 16
    )
    assert (
        len([r for r in job.select(phase="optimizer", kind="weight", step=22) if "whole" in r]) == 1
    )


@pytest.mark.parametrize("how", ["function", "exit", "child"])
def test_the_end_is_whole_when_the_optimizer_is_gone_or_the_process_ends_at_once(how):
    """`function`: training in a function that returns; `exit`: os._exit; `child`: in a child of
    multiprocessing, by fork.
    """
    job = observed("large", args=("18", "Adam", how))
    last = max(r["step"] for r in job.records)
    _first, after = large_weights(1)
    found = [r for r in job.select(phase="optimizer", kind="weight", step=last) if "whole" in r]
    assert last == 18 and [r["offset"] for r in found] == [a for a, _b in bounds(after[0][0].size)]
    moments = {
        r["name"].partition("[")[0] for r in job.select(phase="optimizer", kind="moment", step=last)
    }
    assert {
        "weight.exp_avg",
        "weight.exp_avg_sq",
        "bias.exp_avg",
        "weight.step",
        "bias.step",
    } <= moments


@pytest.mark.parametrize("level", ["steps", "modules", "ops"])
def test_at_other_levels_weights_are_whole(level):
    assert observed("large", level, args=("3",)).names(
        step=1, kind="weight", phase="optimizer"
    ) == ["weight", "bias"]


def test_the_order_of_the_parameters_is_recorded_before_what_follows_from_it():
    usual, turned = observed("facts", args=("seeded",)), observed("facts", args=("set",))
    for job, order in ((usual, ["weight", "bias"]), (turned, ["bias", "weight"])):
        found = job.select(kind="order")
        assert [(r["name"], r["phase"], r["step"]) for r in found] == [
            ("parameters of Adam[0]", "init", 0)
        ]
        assert job.note("order") == "Adam[0]: " + ", ".join("Linear." + name for name in order)
        assert all(found[0]["link"] < r["link"] for r in job.select(kind="gradient"))
        moments = job.names(kind="moment", step=1)
        assert sorted(moments) == sorted(
            n + e for n in order for e in (".step", ".exp_avg", ".exp_avg_sq")
        )
    assert usual.select(kind="order")[0]["digest"] != turned.select(kind="order")[0]["digest"]

    def content(job):
        return {(r["name"], r["step"]): r["digest"] for r in job.select(kind="moment")}

    assert content(usual) == content(turned)  # whatever the order, each value has one name


@pytest.mark.parametrize(
    "how, first",
    [
        ("seeded", None),
        ("unseeded", "the program before its first record"),
        ("late", "Dropout at "),
    ],
)
def test_a_draw_before_any_seed_is_noted(how, first):
    note = observed("facts", args=(how,)).note("unseeded")
    assert note is None if first is None else note.startswith(first)


@pytest.mark.parametrize("how, name", [("random", "python.random"), ("numpy", "numpy")])
def test_a_draw_from_an_unseeded_generator_of_python_or_numpy_is_noted(how, name):
    note = observed("facts", args=(how,)).note("unseeded." + name)
    assert note == "the program before its first record"
    assert observed("facts", args=(how + "-seeded",)).note("unseeded." + name) is None


def test_weights_in_shared_memory_are_noted_with_their_place():
    note = observed("facts", args=("shared",)).note("weights.shared")
    assert note.startswith("Adam: 2 of 2 in ") and ":" in note.rpartition(" in ")[2]
    assert observed("facts", args=("seeded",)).note("weights.shared") is None


def test_every_global_of_a_hook_exists_before_it_is_armed():
    """A name that only `global` in arm() makes is a NameError for whoever calls before."""
    import ast
    from pathlib import Path

    for file in (Path(__file__).resolve().parents[2] / "python/twinrun/_agent").glob("*.py"):
        tree = ast.parse(file.read_text())
        wanted = {
            name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
        }
        made = {
            target.id
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            for outer in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for target in ast.walk(outer)
            if isinstance(target, ast.Name)
        }
        assert wanted <= made, (file.name, wanted - made)


def test_batches_come_with_their_indices_and_the_loader_s_label():
    job = observed("train")
    assert job.names(phase="data") == ["sample indices", "batch[0]", "batch[1]"] * 3
    assert {r["scope"] for r in job.select(phase="data")} == {"DataLoader"}
    assert {r["op"] for r in job.select(kind="indices")} == {"RandomSampler"}
    assert job.select(kind="batch")[0]["shape"] == [4, 4]


def test_consumers_of_the_generator_are_named_with_their_line():
    job = observed("train")
    first = [(r["op"], r["site"].split("\n")[0]) for r in job.select(phase="rng", step=0)]
    assert [op for op, _site in first] == ["DataLoader.__iter__", "RandomSampler", "Dropout", ""]
    assert first[0][1].endswith(place("train", "for x, y") + " in <module>")
    assert first[2][1].endswith(place("train", "return self.b") + " in forward")
    assert [r["op"] for r in job.select(phase="rng", step=1)] == ["Dropout", ""]
    assert (
        job.select(phase="rng", step=1)[1]["digest"] == job.select(phase="rng", step=1)[0]["digest"]
    )


def test_a_loss_module_s_output_is_the_loss_once():
    job = observed("train")
    assert [(r["name"], r["op"]) for r in job.select(kind="loss")] == [
        ("loss", "CrossEntropyLoss")
    ] * 3


def test_levels_add_to_each_other():
    low, middle, high = (observed("train", level) for level in ("steps", "tensors", "modules"))
    assert {r["kind"] for r in low.records} == {"batch", "weight", "loss"}
    assert {r["kind"] for r in middle.records} > {
        "gradient",
        "moment",
        "state",
        "indices",
        "activation",
        "hyper",
    }
    assert middle.names(kind="activation", step=0) == ["output"]
    assert high.names(kind="activation", step=0) == ["a", "norm", "drop", "b", "output"]


def test_coverage_is_noted():
    job = observed("train")
    seen = {key[5:]: value for key, value in job.notes if key.startswith("seen.")}
    assert set(seen) == {
        "state",
        "batch",
        "init",
        "output",
        "loss",
        "gradient",
        "weight",
        "moment",
        "buffer",
    }
    assert set(seen.values()) == {"first at step 0"} and len(job.notes) == len(
        {key for key, _value in job.notes}
    )
    assert (
        job.note("torch.version")
        and "optimizer hooks" in job.note("armed")
        and job.note("unarmed") is None
    )


def test_what_a_module_is_given_is_a_batch_unless_the_job_computed_it():
    job = observed("gan")
    given = [
        r["kind"]
        for r in job.records
        if r["phase"] == "data" and r["scope"] == "Sequential" and r["name"] == "input[0]"
    ]
    # real data, something detached, the other model's output
    assert given == ["batch", "batch", "in"] * 3


def test_a_captured_graph_and_its_replays_are_noted():
    note = observed("graphs").note("cuda.graph")
    assert note and note.startswith("2 ") and place("graphs", "method(Stand())") in note, note
    assert observed("train").note("cuda.graph") is None


# ---------------------------------------------------------------- when a step ends


def test_two_optimizers_that_alternate_make_one_step_of_both():
    job = observed("gan")
    assert [
        job.steps(kind="weight", phase="optimizer", scope=s, name="0.bias")
        for s in ("Sequential", "Sequential#2")
    ] == [[0, 1, 2, 3]] * 2
    assert job.steps(kind="loss") == [0, 0, 1, 1, 2, 2]
    assert "0.weight.momentum_buffer" in job.names(step=0, kind="moment", scope="Sequential")


def test_optimizers_that_do_not_alternate_end_a_step_each():
    job = observed("critic")
    assert job.steps(kind="weight", phase="optimizer", name="bias", scope="Linear") == [
        0,
        0,
        1,
        2,
        4,
        5,
        6,
        7,
        9,
    ]
    assert job.steps(kind="weight", phase="optimizer", name="bias", scope="Linear#2") == [3, 8, 9]


def test_each_backward_of_a_closure_is_an_occurrence():
    job = observed("lbfgs")
    losses = job.steps(kind="loss")
    assert losses.count(0) > 1 and losses == sorted(losses) and set(losses) == {0, 1}
    name = job.names(kind="gradient")[0]
    assert job.steps(kind="gradient", name=name) == losses
    assert job.steps(kind="weight", phase="optimizer", name=name) == [0, 1, 2]


def test_accumulated_backwards_share_a_step():
    job = observed("accumulation")
    assert job.steps(kind="loss") == [0, 0, 1, 1] and job.steps(kind="gradient", name="bias") == [
        0,
        1,
    ]


def test_a_step_left_out_by_the_scaler_is_a_step_with_its_gradients():
    job = observed("scaler")
    assert job.steps(kind="moment", name="step skipped") == [1]
    assert job.steps(kind="weight", phase="optimizer", name="bias") == [0, 2, 3, 4]
    assert job.steps(kind="gradient", phase="backward", name="bias") == [0, 1, 2, 3]
    # divided by the scale; infinities stay what they are
    assert job.steps(kind="gradient", phase="optimizer", name="bias") == [0, 2, 3]
    scales = [r["digest"] for r in job.select(kind="hyper", name="loss scale")]
    assert len(scales) == 4 and scales[1] != scales[2]


def test_updates_by_hand_end_a_step():
    job = observed("by_hand")
    assert job.steps(kind="loss") == list(range(9))
    assert job.steps(kind="weight", phase="optimizer", name="weight") == [0, 1, 2]
    assert job.steps(kind="weight", phase="optimizer", name="leaf#1")[:3] == [3, 4, 5]
    assert job.steps(kind="gradient", name="leaf#1") == [3, 4, 5, 6, 7, 8]


def test_evaluation_only_makes_a_step_of_every_forward():
    job = observed("evaluation")
    assert job.steps(kind="activation") == [0, 1, 2, 3, 4] and job.steps(kind="batch") == [
        0,
        1,
        2,
        3,
        4,
    ]


# ---------------------------------------------------------------- the other rooms


def test_checkpoints_are_digested_without_their_plain_values():
    one, other = observed("saving", args=("1.5",)), observed("saving", args=("2.5",))
    files = one.select(phase="checkpoint", kind="file")
    assert [r["name"] for r in files] == ["a.pt", "model.pt", "(BytesIO)", "plain.pt"]
    assert [r["digest"] for r in files] == [
        r["digest"] for r in other.select(phase="checkpoint", kind="file")
    ]
    texts = [value for key, value in one.notes if key == "checkpoint.values"]
    assert texts[0].startswith("step 1 a.pt\n") and "['saved_at'] = 1.5" in texts[0]
    assert (
        texts[0].replace("1.5", "2.5")
        == [value for key, value in other.notes if key == "checkpoint.values"][0]
    )
    told = [
        [value.split(" ", 2) for key, value in run.notes if key == "checkpoint.digest"]
        for run in (one, other, observed("saving", args=("1.5",)))
    ]
    assert [name for _, _, name in told[0]] == [r["name"] for r in files]
    assert told[0] == told[2] and told[0][0][0] != told[1][0][0]


def test_recomputed_activations_are_marked():
    job = observed("checkpointing", "modules")
    again = [r for r in job.select(step=0, kind="activation") if r["recomputed"]]
    first = {
        r["name"]: r["digest"] for r in job.select(step=0, kind="activation") if not r["recomputed"]
    }
    assert {"a", "a.linear", "a.drop", "b.linear"} <= {r["name"] for r in again}
    assert all(r["digest"] == first[r["name"]] for r in again) and set(first) == {
        "a.linear",
        "a.drop",
        "a",
        "b.linear",
        "b.drop",
        "b",
        "output",
    }


@pytest.mark.parametrize("start", ["fork", "spawn"] + ["forkserver"] * FULL)
def test_loader_workers_keep_their_own_steps(start):
    job = observed("loaders", args=(start,))
    workers = {r["process"] for r in job.records} - {"main"}
    assert workers == {
        "loader worker 0",
        "loader worker 1",
        "loader worker 0 (process 3)",
        "loader worker 1 (process 4)",
    }
    for worker in workers:
        mine = job.select(process=worker)
        assert {r["step"] for r in mine} == {0, 1} and len(
            [r for r in mine if r["kind"] == "indices"]
        ) == 2
        assert {r["name"] for r in mine if r["phase"] == "rng"} == {
            "torch.cpu",
            "python.random",
            "numpy",
        }
        assert {r["op"] for r in mine if r["phase"] == "rng"} == {"Data", ""}
    batches = job.select(process="main", kind="batch")
    assert [r["name"] for r in batches[:2]] == ["batch[0]", "batch, plain values"] and len(
        batches
    ) == 16
    assert len(job.select(process="main", kind="indices")) == 8


def test_ranks_show_local_and_reduced_gradients_and_collectives():
    job = observed("ranks")
    assert {(r["rank"], r["process"]) for r in job.records} == {(0, "main"), (1, "main")}
    local, final = (
        [{r["digest"] for r in job.select(kind=kind, name="weight", step=0)}]
        for kind in ("gradient (local)", "gradient")
    )
    assert len(local[0]) == 2 and len(final[0]) == 1
    calls = [(r["kind"], r["name"]) for r in job.select(phase="collective", rank=0)]
    assert calls == [("in", "all_reduce"), ("out", "all_reduce")] * 2 + [
        ("in", "all_gather"),
        ("out", "all_gather[0]"),
        ("out", "all_gather[1]"),
        ("in", "broadcast"),  # rank 0 gives, rank 1 gets
    ]
    outs = [
        [r["digest"] for r in job.select(phase="collective", kind="out", rank=rank)]
        for rank in (0, 1)
    ]
    given = [r["digest"] for r in job.select(phase="collective", name="broadcast", rank=0)]
    assert outs[0] + given == outs[1]


def test_a_call_that_asks_for_shapes_alone_is_no_forward():
    """Of tensors on `meta`, or Keras's stand-ins. One that is given a value besides, or gives one
    back, is a forward like any other.
    """
    job = observed("shapes")
    outputs = [(r["step"], r["scope"]) for r in job.select(kind="activation")]
    names = ["Mixed", "Nested", "Arrays", "Own", "Sized#2", "Sized#2"]
    assert [scope for _step, scope in outputs] == names, outputs
    assert not [r for r in job.select(kind="activation") if r["unobserved"]]
    assert outputs[-1][0] == outputs[-2][0] + 1  # an evaluation of one model twice
    assert "Sized" not in {r["scope"] for r in job.records}
    given = {r["scope"] for r in job.records if r["kind"] in ("in", "batch")}
    assert given == {"Mixed", "Nested", "Arrays", "Own", "Sized#2"}


def test_strange_tensors_are_taken_apart_or_recorded_as_unobserved():
    job = observed("odd")
    assert job.names(step=0, kind="gradient") == ["weight.indices", "weight.values"]
    outputs = {r["name"]: r for r in job.select(kind="activation", scope="Wrapper")}
    assert set(outputs) == {
        f"output['{n}']" for n in ("plain", "meta", "f8", "negative", "empty", "expanded", "mkldnn")
    } | {
        "output['list'][0].indices",
        "output['list'][0].values",
        "output['list'][1]",
        "output['list'][2]",
        "output['list'][3]",
        "output['nested'][0]",
        "output['nested'][1]",
        "output['quantized']",
        "output['quantized'].scale",
        "output['channels']",
        "output['channels'].scales",
        "output['channels'].zero_points",
        *("output['csr']" + part for part in (".crow", ".col", ".values")),
        *("output['csc']" + part for part in (".ccol", ".row", ".values")),
    }
    assert [n for n, r in outputs.items() if r["unobserved"]] == ["output['meta']"]
    assert outputs["output['f8']"]["dtype"] == 16 and outputs["output['list'][3]"]["shape"] == [
        2,
        4,
    ]


@pytest.mark.parametrize(
    "how, words",
    [
        ("many", "batch holds more than 4096 tensors"),
        ("deep", "batch holds a tensor more than 8 containers deep"),
        ("values", "sample indices holds more than 65536 plain values"),
        ("fits", None),
    ],
)
def test_what_is_left_out_of_a_structure_is_told(how, words):
    note = observed("structures", args=(how,)).note("unseen")
    assert (
        note is None
        if words is None
        else note.startswith(words) and note.endswith("not all were recorded")
    )


def test_the_end_holds_buffers_and_weights_that_no_optimizer_has():
    job = observed("structures", args=("fits",))
    last = max(r["step"] for r in job.records)
    assert {"0.weight", "0.bias", "1.weight", "1.bias", "table"} <= set(
        job.names(phase="optimizer", kind="weight", step=last)
    )
    before = job.select(phase="init", kind="weight", name="table")[0]["digest"]
    assert (
        job.select(phase="optimizer", kind="weight", name="table", step=last)[0]["digest"] != before
    )


# ---------------------------------------------------------------- operations


def test_operations_have_inputs_outputs_modules_and_lines():
    job = observed("train", "ops")
    seen = job.select(phase="kernel", step=1)
    forward = [r for r in seen if r["op"] == "aten::addmm" and r["scope"] == "a"]
    assert [(r["kind"], r["name"]) for r in forward] == [
        ("in", f"aten::addmm.in{i}") for i in range(3)
    ] + [("out", "aten::addmm.out0")]
    assert forward[-1]["links"] == [r["link"] for r in forward[:3]]
    assert forward[-1]["digest"] == job.select(step=1, kind="activation", name="a")[0]["digest"]
    assert (
        forward[0]["site"].split("\n")[0].endswith(place("train", "return self.b") + " in forward")
    )


def test_backward_operations_carry_the_line_of_their_forward():
    seen = observed("train", "ops").select(phase="kernel", step=1)
    norm = [r for r in seen if r["op"] == "aten::native_batch_norm_backward"]
    assert {r["scope"] for r in norm} == {"backward:norm"}
    lines = {r["site"].split("\n")[0].rsplit("/", 1)[-1] for r in norm}
    assert lines == {place("train", "return self.b") + " in forward"}


def test_drawing_operations_have_their_generator_as_an_input_and_not_what_they_overwrite():
    seen = observed("train", "ops").select(phase="kernel", op="aten::bernoulli_", step=1)
    assert [(r["kind"], r["name"]) for r in seen] == [
        ("in", "aten::bernoulli_.generator"),
        ("out", "aten::bernoulli_.out0"),
    ]


def test_two_runs_at_operation_level_are_equal_record_by_record():
    """Nothing uninitialised is recorded, and nothing that depends on the process."""
    one = observed("checkpointing", "ops")
    other = observed("checkpointing", "ops", extra=(("SECOND", "1"), ("MALLOC_PERTURB_", "99")))
    same = [
        [
            (r["step"], r["phase"], r["kind"], r["name"], r["scope"], r["site"], r["digest"])
            for r in job.records
        ]
        for job in (one, other)
    ]
    assert len(same[0]) > 100 and same[0] == same[1]


def test_a_window_limits_operations_to_its_steps():
    job = observed("train", "ops:1:1")
    assert set(job.steps(phase="kernel")) == {1}
    assert set(job.steps(kind="activation", name="a")) == {1} and job.steps(
        kind="activation", name="output"
    ) == [0, 1, 2]
