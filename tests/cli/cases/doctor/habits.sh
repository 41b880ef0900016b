# Places that look like seeding and are not; their right twins are not named.
cat >wrong.py <<'END'
import os, torch
os.environ["PYTHONHASHSEED"] = "0"
model = torch.nn.Linear(3, 4)
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
def worker_init_fn(worker_id):
    np.random.seed(42 + worker_id)
END
cat >right.py <<'END'
import os, torch
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
model = torch.nn.Linear(3, 4)
# os.environ["PYTHONHASHSEED"] = "0"
assert os.environ["PYTHONHASHSEED"] == "0"
def worker_init_fn(worker_id):
    np.random.seed(torch.initial_seed() % 2**32 + worker_id)
def main():
    torch.manual_seed(2)
END
twinrun doctor wrong.py right.py | grep -F '.py:'
