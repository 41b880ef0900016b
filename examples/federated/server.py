"""Federated averaging: clients train on their own data, the server adds up what they send.

python server.py            adds up updates as they come
python server.py --exact    adds them up exactly, rounded once: the order means nothing
"""

import argparse
import queue
import random
import threading
import time

import torch
import twinrun
from twinrun.torch import exact_sum

args = argparse.ArgumentParser()
args.add_argument("--exact", action="store_true")
args = args.parse_args()

CLIENTS, ROUNDS, FEATURES = 12, 8, 16
torch.set_num_threads(1)
torch.manual_seed(7)
truth = torch.randn(FEATURES, 1)


def data_of(client):
    samples = 20 + 10 * client
    x = torch.randn(samples, FEATURES)
    return x, x @ truth + 0.1 * torch.randn(samples, 1)


data = [data_of(client) for client in range(CLIENTS)]
total = sum(len(x) for x, _ in data)
model = torch.zeros(1, FEATURES)


def client(number, weight, inbox):
    """Three steps of gradient descent from the server's weights; sends what it would change."""
    x, y = data[number]
    w = weight.clone()
    for _ in range(3):
        w -= 0.05 * (x.T @ (x @ w.T - y)).T / len(x)
    time.sleep(random.SystemRandom().random() / 100)  # the network
    inbox.put((len(x) / total) * (w - weight))


for number in range(ROUNDS):
    inbox = queue.Queue()
    twinrun.record("data:round", torch.tensor([len(x) for x, _ in data]))
    threads = [threading.Thread(target=client, args=(n, model, inbox)) for n in range(CLIENTS)]
    for t in threads:
        t.start()
    updates = [inbox.get() for _ in threads]  # in the order of arrival
    for t in threads:
        t.join()
    change = exact_sum(torch.stack(updates), dim=0) if args.exact else sum(updates)
    model = model + change
    twinrun.record("weight:global", model)
    twinrun.step()
    print(f"round {number}  distance {float((model - truth.T).norm()):.9f}")
