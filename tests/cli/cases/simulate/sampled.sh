# More than can be looked at: a sample, and it is said. With nothing given the network is measured.
twinrun simulate --ranks 2000 --elements 1000000 --sample 64 --trials 4 --alpha 2us --beta 0.1ns | sed 's/^\(  time \).*/\1/'
twinrun simulate --ranks 2 --elements 10 --trials 2 | grep -c measured
twinrun simulate --ranks 4 --elements 10 --trials 2 --json | "$PYTHON" -c "import json, sys; r = json.load(sys.stdin); n = r['network']; print(r['schema'], r['outcome'], n['alpha_measured'], n['beta_measured'], n['alpha_s'] > 0)"
