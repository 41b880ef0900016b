# SPDX-License-Identifier: Apache-2.0
"""Next-word model in plain Python whose vocabulary is numbered in the order of a set of strings."""

TEXT = """the river rose in the night and the mill stood still in the morning the miller walked along the river
and counted the stones of the weir the stones lay as the water had left them and the water went on as before"""
STEPS = 12
RATE = 0.25

corpus = TEXT.split()
number = {word: i for i, word in enumerate(set(corpus))}
tokens = [number[word] for word in corpus]
size = len(number)
embedding = [[((7 * i + 3 * k) % 11 - 5) / 10 for k in range(size)] for i in range(size)]
for step in range(STEPS):
    loss = 0.0
    for here, following in zip(tokens, tokens[1:]):
        row = embedding[here]
        top = sum(2.718281828**value for value in row)
        for k in range(size):
            share = 2.718281828 ** row[k] / top
            row[k] -= RATE * (share - (k == following))
        loss += row[following]
    print(f"step {step} tokens {tokens[step:step + 4]} score {loss:.6f}")
print("result", loss.hex())
