# SPDX-License-Identifier: Apache-2.0
"""One run as one task of a Ray cluster: what `--on ray` starts for each run, and nobody types.

    python -m twinrun.ray_run [OPTIONS] --list             the nodes, one a line: name, type
    python -m twinrun.ray_run [OPTIONS] --node NAME FILE   FILE by /bin/sh, on that node

It returns when the task has ended, with its exit code. Ray repeats nothing (max_retries=0), and the
task runs on that node or nowhere (NodeAffinity, not soft). The node on which it was is told to the
run by the worker, in TWINRUN_NODE, and not by who asked for it.
"""

import argparse
import signal
import sys


def parsed(argv):
    parser = argparse.ArgumentParser(prog="--on ray:OPTIONS", add_help=False, allow_abbrev=False)
    parser.add_argument("--address", default=None)
    parser.add_argument("--num-cpus", type=float, default=1)
    parser.add_argument("--num-gpus", type=float, default=0)
    parser.add_argument("--resource", action="append", default=[], metavar="NAME=AMOUNT")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--node")
    parser.add_argument("file", nargs="?")
    asked = parser.parse_args(argv)
    try:
        pairs = [r.rpartition("=") for r in asked.resource]
        asked.resources = {name: float(amount) for name, _, amount in pairs}
    except ValueError:
        parser.error(f"--resource: expected NAME=AMOUNT, found {asked.resource}")
    return asked


def names_of(nodes):
    """{id: name} of nodes that are up: the node's own name where no other has it, else its id."""
    own = {n["NodeID"]: n.get("NodeName") or n["NodeManagerAddress"] for n in nodes if n["Alive"]}
    all_names = list(own.values())
    return {i: name if all_names.count(name) == 1 else i for i, name in own.items()}


def type_of(node):
    """What makes nodes alike; memory differs by some pages, and each node is a resource, too."""
    return ",".join(
        f"{name}={amount:g}"
        for name, amount in sorted(node["Resources"].items())
        if not name.startswith("node:") and name not in ("memory", "object_store_memory")
    )


def run_here(path, names):
    """On the worker. It is sent there as a whole: a worker need not have twinrun's modules."""
    import os
    import subprocess

    import ray

    node = ray.get_runtime_context().get_node_id()
    with open(os.path.join(os.path.dirname(path), "log"), "ab") as log:
        return subprocess.call(
            ["/bin/sh", path],
            env={**os.environ, "TWINRUN_NODE": names.get(node, node)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def main(argv):
    asked = parsed(argv)
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError as e:
        print(f"{sys.executable} has no Ray: {e}", file=sys.stderr)
        return 1
    # an end that is asked for is one that Ray hears of, too: it then ends the task
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        ray.init(
            address=asked.address or "auto", log_to_driver=False, logging_level="error"
        )  # never a cluster of our own
        nodes = ray.nodes()
        names = names_of(nodes)
        if asked.list:
            for one in nodes:
                if one["NodeID"] in names:
                    print(f"node\t{names[one['NodeID']]}\t{type_of(one)}")
            return 0
        wanted = [i for i, name in names.items() if name == asked.node]
        if not wanted:
            print(f"Ray has no node {asked.node} that is up", file=sys.stderr)
            return 1
        task = ray.remote(run_here).options(
            max_retries=0,
            num_cpus=asked.num_cpus,
            num_gpus=asked.num_gpus,
            resources=asked.resources or None,
            scheduling_strategy=NodeAffinitySchedulingStrategy(wanted[0], soft=False),
        )
        return ray.get(task.remote(asked.file, names))
    except Exception as e:  # whatever Ray raises ends this run, and is its last word
        sys.stdout.flush()
        print(f"Ray: {type(e).__name__}: {' '.join(str(e).split())[:300]}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
