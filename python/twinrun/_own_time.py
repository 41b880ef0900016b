# SPDX-License-Identifier: Apache-2.0
"""Whose time is it? For twinrun.recheck: is a time, or a rate, one that the run itself can have
had?

"epoch took 3.2 s" is how long the machine worked, "half-life 3.2 s" is what the job computed. A
time is the run's own by the head of its label, a rate by the thing that it counts.
"""

import re


def words(text):
    return frozenset(text.split())


OTHER_WORLDS = words(
    "predicted prediction forecast simulated simulation sim virtual physical arrival arrive"
    " arrives arrived departure travel transit flight lap response reaction rise settling"
    " relaxation decay decays decayed life halflife lifetime half survival survived failure"
    " onset delay dwell residence hitting passage escape mixing dead orbit orbital period true"
    " final integration correlation autocorrelation crossing collision recovery reverberation"
    " exposure shutter pulse heart beat beats breath pulsar spike burst event reaches reached"
    " falls lands peak signal reach target goal death relapse progression recurrence extinction"
    " absorption threshold audio video clip song movie tau tf tmax tend"
)
OWN_HEADS = words(
    "time times elapsed duration durations took takes taken taking spent needed walltime"
    " wallclock wall runtime latency uptime cputime seconds secs sec milliseconds timestamp ms"
    " eta remaining left timeout overhead done finished completed complete ended exited stopped"
    " total overall cpu gpu user sys system real epoch epochs step steps iter iters iteration"
    " iterations batch batches round fold stage phase train training trained eval evaluation"
    " evaluating evaluated validation validating val test testing inference infer forward fwd"
    " backward bwd optimizer optim update data dataloader loader load loaded loading save saved"
    " saving checkpoint ckpt checkpointing write wrote writing read reading compile compiled"
    " compiling compilation build built setup init initialization startup warmup import imports"
    " download downloaded preprocess preprocessing tokenize tokenization generation generated"
    " decode decoding encode encoding prefill ttft tpot comm communication allreduce allgather"
    " bcast barrier sync kernel io benchmark bench timer timing profile speed loop run ran job"
    " task process processed solve solver solved assembly sort sorted search fit fitted fitting"
    " main perf now"
)
THINGS = words(
    "it iter iteration step timestep sample smp img image tok token seq sequence batch batche"
    " ex example item obj object row record rec file doc document word w char character byte b"
    " kb mb gb tb kib mib gib tib bit kbit mbit gbit flop mflop gflop tflop pflop op req request"
    " query querie call msg message frame sentence sent utt utterance game episode env epoch"
    " update up node edge graph atom cell zone z c point pt pixel px voxel ray element elem dof"
    " site lup mlup glup key pair line loop task job test trial eval evaluation move instr"
    " packet pkt entry entrie tau fs ps day gpu device rank core dom fp qp micro microbatch"
    " microbatche chunk shard page block patch patche crop tile view thread worker"
)
UNITS = words(
    "s sec secs second seconds min mins minute minutes h hr hrs hour hours"
    " ms msec milliseconds us usec ns nsec"
)
SMALL = words("ms us ns msec usec nsec \u00b5s \u03bcs")
MACHINE = words("wall cpu elapsed took real runtime walltime wallclock step")
SIMULATION = re.compile(r"(?<!\w)(?:dt|cycle|timestep|t_end|dtime)(?!\w)", re.I)
CELL = re.compile("[ \t|\u0080-\U0010ffff]+$")


def time_of_run(line, at, label, unit):
    """Is the number line[at:] with a unit of time (or "") the run's own? False: not known."""
    parts = label.parts
    if not parts or label.measured:
        before = re.findall("[a-z]+", line[:at].lower())
        return not OTHER_WORLDS.intersection(before)
    if OTHER_WORLDS.intersection(parts):
        return False
    head, small = label.head(), unit.lower() in SMALL
    if small and head == "dt":
        return True
    if SIMULATION.search(line) and not small and not MACHINE.intersection(parts):
        return False
    if parts[0] in ("in", "after", "within") or head in OWN_HEADS:
        return True
    if any(pair == ("to", "time") for pair in zip(parts, parts[1:])):  # "time to load the data"
        return True
    return head == "t" and re.search(r"(?<!\w)done(?!\w)", line, re.I) is not None


def thing_of_machine(thing):
    low = thing.lower()
    if low in THINGS or low.removesuffix("s") in THINGS:
        return True
    return len(thing) > 3 and thing[0] in "kKMG" and thing_of_machine(thing[1:])


def rate_of_run(label, unit):
    """Is "it/s", "/s", "ms/step" or "beats/min" a speed of the machine? False: not known."""
    first, *below = unit.split("/")
    if not first:
        head = label.head()
        own = not label.parts or label.measured or head in OWN_HEADS or thing_of_machine(head)
        speed = words("throughput speed rate processed processing")
        own = own or (len(label.parts) == 1 and head in speed)
        return own and not OTHER_WORLDS.intersection(label.parts)
    if first.lower() not in UNITS and first[0] not in "\u00b5\u03bc":
        return thing_of_machine(first)
    return all(thing_of_machine(b) or b.lower() in UNITS for b in below)
