# Every algorithm over a few ranks; the same options give the same answer.
twinrun simulate --ranks 6 --algorithm all --elements 500 --trials 10 --alpha 2us --beta 0.1ns | sed 's/^\(  time \).*/\1/'
twinrun simulate --ranks 6 --algorithm ring --elements 500 --trials 10 --alpha 2us --beta 0.1ns --jitter 0 --placement fixed
